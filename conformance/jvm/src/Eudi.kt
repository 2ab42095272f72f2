// eu.europa.ec.eudi:eudi-lib-jvm-sdjwt-kt: `NimbusSdJwtOps.verify`, with a challenge where a KB-JWT is demanded. Signatures, `alg` and
// times of the Issuer-signed JWT are its caller's: a Nimbus processor checks them.
package sdcard.eudi

import com.fasterxml.jackson.databind.JsonNode
import com.nimbusds.jose.JOSEObjectType
import com.nimbusds.jose.JWSAlgorithm
import com.nimbusds.jose.crypto.ECDSASigner
import eu.europa.ec.eudi.sdjwt.DefaultSdJwtOps
import eu.europa.ec.eudi.sdjwt.KeyBindingVerifier
import eu.europa.ec.eudi.sdjwt.NimbusSdJwtOps
import eu.europa.ec.eudi.sdjwt.sdJwt
import eu.europa.ec.eudi.sdjwt.vc.ClaimPath
import java.util.Date
import kotlinx.coroutines.runBlocking
import kotlinx.serialization.json.Json
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.buildJsonObject
import kotlinx.serialization.json.put
import sdcard.json
import sdcard.jwk
import sdcard.paths
import sdcard.processor
import sdcard.serve
import sdcard.textOrNull

fun verify(request: JsonNode): Pair<String, JsonNode> = with(NimbusSdJwtOps) {
    val issuer = processor(request).asJwtVerifier()
    val text = request["text"].asText()
    val form = if (text.startsWith("{")) Json.parseToJsonElement(text) as JsonObject else null
    val nonce = request.textOrNull("nonce")
    val sdJwt = runBlocking {
        if (nonce == null) {
            (if (form != null) verify(issuer, form) else verify(issuer, text)).getOrThrow()
        } else {
            val challenge = buildJsonObject {
                put("aud", request["audience"].asText())
                put("nonce", nonce)
            }
            val binding = KeyBindingVerifier.mustBePresentAndValid(HolderPubKeyInConfirmationClaim, challenge)
            (if (form != null) verify(issuer, binding, form) else verify(issuer, binding, text)).getOrThrow().sdJwt
        }
    }
    "claims" to json.readTree(sdJwt.recreateClaims(null).toString())
}

fun issue(request: JsonNode): Pair<String, JsonNode> = with(NimbusSdJwtOps) {
    val issuer = issuer(signer = ECDSASigner(jwk(request["key"]).toECKey()), signAlgorithm = JWSAlgorithm.ES256) {
        type(JOSEObjectType(request["header"]["typ"].asText()))
        keyID(request["header"]["kid"].asText())
    }
    val spec = sdJwt { fill(request["claims"], request.paths("hide")) }
    "text" to json.valueToTree(runBlocking { issuer.issue(spec).getOrThrow() }.serialize())
}

fun present(request: JsonNode): Pair<String, JsonNode> {
    val key = jwk(request["key"]).toECKey()
    val binding = NimbusSdJwtOps.kbJwtIssuer(ECDSASigner(key), JWSAlgorithm.ES256, key.toPublicJWK()) {
        issueTime(Date(request["now"].asLong() * 1000))
        audience(request["audience"].asText())
        claim("nonce", request["nonce"].asText())
    }
    val shown = request.paths("show").map { path ->
        path.drop(1).fold(ClaimPath.claim(path[0].asText())) { before, one -> if (one.isInt) before.arrayElement(one.asInt()) else before.claim(one.asText()) }
    }
    return with(DefaultSdJwtOps) {
        val held = unverifiedIssuanceFrom(request["text"].asText()).getOrThrow()
        val presented = requireNotNull(held.present(shown.toSet())) { "nothing to present" }
        "text" to json.valueToTree(runBlocking { presented.serializeWithKeyBinding(binding).getOrThrow() })
    }
}

fun main() = serve(mapOf("verify" to ::verify, "issue" to ::issue, "present" to ::present))
