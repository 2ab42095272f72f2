// com.authlete:sd-jwt: `SDJWT.parse` and `SDObjectDecoder.decode`. Signatures, `alg`, times, the KB-JWT and the selection of Disclosures
// are its caller's: Nimbus checks the Issuer's signature, and signs.
package sdcard.authlete

import com.authlete.sd.Disclosure
import com.authlete.sd.SDJWT
import com.authlete.sd.SDObjectBuilder
import com.authlete.sd.SDObjectDecoder
import com.fasterxml.jackson.databind.JsonNode
import sdcard.Unsupported
import sdcard.checked
import sdcard.json
import sdcard.jwk
import sdcard.paths
import sdcard.serve
import sdcard.signed
import sdcard.within

fun verify(request: JsonNode): Pair<String, JsonNode> {
    val sdJwt = SDJWT.parse(request["text"].asText())
    val payload = json.readValue(checked(sdJwt.credentialJwt, jwk(request["key"])), Map::class.java)
    @Suppress("UNCHECKED_CAST")
    val decoded = SDObjectDecoder().decode(payload as Map<String, Any>, sdJwt.disclosures as Collection<Disclosure>)
    return "claims" to json.valueToTree(decoded)
}

fun hide(value: Any?, paths: List<List<JsonNode>>, made: MutableList<Disclosure>): Any? {
    fun inner(name: Any, member: Any?) = hide(member, paths.within(name).filter { it.isNotEmpty() }, made)
    fun isHidden(name: Any) = paths.within(name).any { it.isEmpty() }
    return when (value) {
        is Map<*, *> -> SDObjectBuilder().apply {
            for ((name, member) in value.entries.map { it.key as String to inner(it.key!!, it.value) }) {
                if (isHidden(name)) made += putSDClaim(name, member) else putClaim(name, member)
            }
        }.build()
        is List<*> -> value.mapIndexed { number, member ->
            val element = inner(number, member)
            if (isHidden(number)) Disclosure(element).also { made += it }.toArrayElement() else element
        }
        else -> value
    }
}

fun issue(request: JsonNode): Pair<String, JsonNode> {
    val made = mutableListOf<Disclosure>()
    val payload = hide(json.convertValue(request["claims"], Map::class.java), request.paths("hide"), made)
    val jwt = signed(request["header"], json.valueToTree(payload), jwk(request["key"]))
    return "text" to json.valueToTree(SDJWT(jwt, made).toString())
}

fun present(request: JsonNode): Pair<String, JsonNode> {
    val held = SDJWT.parse(request["text"].asText())
    val names = request.paths("show").map { it.last() }
    if (names.any { !it.isTextual }) throw Unsupported("its caller selects, here by name")
    val shown = held.disclosures.filter { one -> names.any { it.asText() == one.claimName } }
    val payload = json.createObjectNode().put("iat", request["now"].asLong()).put("sd_hash", SDJWT(held.credentialJwt, shown).sdHash)
    payload.put("aud", request["audience"].asText()).put("nonce", request["nonce"].asText())
    val kbJwt = signed(json.createObjectNode().put("alg", "ES256").put("typ", "kb+jwt"), payload, jwk(request["key"]))
    return "text" to json.valueToTree(SDJWT(held.credentialJwt, shown, kbJwt).toString())
}

fun main() = serve(mapOf("verify" to ::verify, "issue" to ::issue, "present" to ::present))
