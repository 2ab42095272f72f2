// org.keycloak:keycloak-core: `SdJwtVP` with every check of its options.
package sdcard.keycloak

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode
import org.keycloak.common.crypto.CryptoIntegration
import org.keycloak.common.util.Time
import org.keycloak.crypto.ECDSASignatureSignerContext
import org.keycloak.crypto.KeyWrapper
import org.keycloak.jose.jws.JWSHeader
import org.keycloak.sdjwt.DisclosureSpec
import org.keycloak.sdjwt.IssuerSignedJWT
import org.keycloak.sdjwt.IssuerSignedJwtVerificationOpts
import org.keycloak.sdjwt.JwkParsingUtils
import org.keycloak.sdjwt.SdJwt
import org.keycloak.sdjwt.vp.KeyBindingJwtVerificationOpts
import org.keycloak.sdjwt.vp.SdJwtVP
import sdcard.Unsupported
import sdcard.json
import sdcard.jwk
import sdcard.paths
import sdcard.serve
import sdcard.textOrNull

/** It bounds the age of an SD-JWT; the vectors do not. */
const val LONGEST_S = 2_000_000_000

fun verify(request: JsonNode): Pair<String, JsonNode> {
    while (System.currentTimeMillis() % 1000 > 800) Thread.sleep(10) // its clock has an offset, and must not tick meanwhile
    Time.setOffset((request["now"].asLong() - System.currentTimeMillis() / 1000).toInt())
    val skew = request["skew"].asInt()
    val key = JwkParsingUtils.convertJwkNodeToVerifierContext(request["key"])
    val issuer = IssuerSignedJwtVerificationOpts.builder().withClockSkew(skew).withIatCheck(LONGEST_S).withExpCheck(true).withNbfCheck(true)
    val nonce = request.textOrNull("nonce")
    val holder = KeyBindingJwtVerificationOpts.builder(0).withKeyBindingRequired(nonce != null)
    if (nonce != null) {
        holder.withNonceCheck(nonce).withAudCheck(request["audience"].asText()).withIatCheck(request["past"].asInt())
            .withExpCheck(true).withNbfCheck(true)
    }
    val context = SdJwtVP.of(request["text"].asText()).sdJwtVerificationContext
    return "claims" to context.verifyPresentation(listOf(key), issuer.build(), holder.build() as KeyBindingJwtVerificationOpts, null)
}

fun signer(request: JsonNode): ECDSASignatureSignerContext {
    val key = KeyWrapper()
    key.setPrivateKey(jwk(request["key"]).toECKey().toPrivateKey())
    key.algorithm = "ES256"
    key.type = "EC"
    key.kid = request["header"]?.textOrNull("kid")
    return ECDSASignatureSignerContext(key)
}

fun issue(request: JsonNode): Pair<String, JsonNode> {
    val spec = DisclosureSpec.builder()
    for (path in request.paths("hide")) when {
        path.size == 1 -> spec.withUndisclosedClaim(path[0].asText())
        path.size == 2 && path[1].isInt -> spec.withUndisclosedArrayElt(path[0].asText(), path[1].asInt(), null)
        else -> throw Unsupported("it nests one SD-JWT in another instead")
    }
    val header = json.convertValue(request["header"], JWSHeader::class.java)
    val jwt = IssuerSignedJWT.builder().withClaims(request["claims"] as ObjectNode, spec.build()).withJwsHeader(header).build()
    return "text" to json.valueToTree(SdJwt.builder().withIssuerSignedJwt(jwt).withIssuerSigningContext(signer(request)).build().toSdJwtString())
}

fun present(request: JsonNode): Pair<String, JsonNode> {
    val names = request.paths("show").map { it.last() }
    if (names.any { !it.isTextual }) throw Unsupported("it selects claims by name")
    val kb = json.createObjectNode().put("iat", request["now"].asLong()).put("aud", request["audience"].asText())
    kb.put("nonce", request["nonce"].asText())
    val vp = SdJwtVP.of(request["text"].asText())
    return "text" to json.valueToTree(vp.presentWithSpecifiedClaims(names.map { it.asText() }, false, kb, signer(request)))
}

fun main() {
    CryptoIntegration.init(CryptoIntegration::class.java.classLoader)
    serve(mapOf("verify" to ::verify, "issue" to ::issue, "present" to ::present))
}
