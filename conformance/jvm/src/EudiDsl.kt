// Claims and the places to hide, in the DSL of the EUDI library.
package sdcard.eudi

import com.fasterxml.jackson.databind.JsonNode
import eu.europa.ec.eudi.sdjwt.DisclosableArraySpecBuilder
import eu.europa.ec.eudi.sdjwt.DisclosableObjectSpecBuilder
import sdcard.within

typealias Paths = List<List<JsonNode>>

fun DisclosableObjectSpecBuilder.fill(value: JsonNode, paths: Paths): Unit =
    value.fields().forEach { (name, member) ->
        val inner = paths.within(name)
        val hidden = inner.any { it.isEmpty() }
        val rest = inner.filter { it.isNotEmpty() }
        when {
            member.isObject -> if (hidden) sdObjClaim(name) { fill(member, rest) } else objClaim(name) { fill(member, rest) }
            member.isArray -> if (hidden) sdArrClaim(name) { fill(member, rest) } else arrClaim(name) { fill(member, rest) }
            member.isNumber -> if (hidden) sdClaim(name, member.numberValue()) else claim(name, member.numberValue())
            member.isBoolean -> if (hidden) sdClaim(name, member.asBoolean()) else claim(name, member.asBoolean())
            else -> if (hidden) sdClaim(name, member.asText()) else claim(name, member.asText())
        }
    }

/** Elements that are texts or objects, as in the exchanged cards. */
fun DisclosableArraySpecBuilder.fill(value: JsonNode, paths: Paths): Unit =
    value.forEachIndexed { number, member ->
        val hidden = paths.within(number).any { it.isEmpty() }
        when {
            member.isObject -> if (hidden) sdObjClaim { fill(member, emptyList()) } else objClaim { fill(member, emptyList()) }
            else -> if (hidden) sdClaim(member.asText()) else claim(member.asText())
        }
    }
