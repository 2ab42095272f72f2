// What the JVM adapters share: the protocol, and the signatures that libraries leave to their callers.
package sdcard

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.ObjectMapper
import com.fasterxml.jackson.databind.node.ObjectNode
import com.nimbusds.jose.JOSEObjectType
import com.nimbusds.jose.JWSAlgorithm
import com.nimbusds.jose.JWSObject
import com.nimbusds.jose.JWSHeader
import com.nimbusds.jose.Payload
import com.nimbusds.jose.crypto.ECDSASigner
import com.nimbusds.jose.crypto.ECDSAVerifier
import com.nimbusds.jose.jwk.ECKey
import com.nimbusds.jose.jwk.JWK
import com.nimbusds.jose.proc.DefaultJOSEObjectTypeVerifier
import com.nimbusds.jose.proc.JWSKeySelector
import com.nimbusds.jose.proc.SecurityContext
import com.nimbusds.jwt.proc.DefaultJWTClaimsVerifier
import com.nimbusds.jwt.proc.DefaultJWTProcessor
import java.util.Date

val json = ObjectMapper()

class Unsupported(reason: String) : Exception(reason)

/** Answers one request a line until the input ends. What libraries print goes to standard error. */
fun serve(functions: Map<String, (JsonNode) -> Pair<String, JsonNode>>) {
    val output = System.out
    System.setOut(System.err)
    for (line in generateSequence(::readLine)) {
        val request = json.readTree(line)
        val answer = json.createObjectNode()
        try {
            val function = functions[request["op"].asText()] ?: throw Unsupported("it has no such function")
            val (name, value) = function(request)
            answer.put("outcome", "accepted").set<ObjectNode>(name, value)
        } catch (reason: Unsupported) {
            answer.put("outcome", "unsupported").put("error", reason.message)
        } catch (error: Throwable) {
            answer.put("outcome", "refused").put("error", "${error.javaClass.simpleName}: ${error.message ?: error.cause ?: reasonOf(error)}")
        }
        output.println(answer)
        output.flush()
    }
}

/** What an exception without a message says in a field named `reason`. */
fun reasonOf(error: Throwable): Any? =
    error.javaClass.declaredFields.firstOrNull { it.name == "reason" }?.apply { isAccessible = true }?.get(error)

fun JsonNode.textOrNull(name: String): String? = get(name)?.takeIf { it.isTextual }?.asText()

fun JsonNode.paths(name: String): List<List<JsonNode>> = get(name).map { it.toList() }

fun jwk(key: JsonNode): JWK = JWK.parse(key.toString())

fun algorithm(key: JWK): JWSAlgorithm =
    when ((key as? ECKey)?.curve?.name) {
        "P-256" -> JWSAlgorithm.ES256
        "P-384" -> JWSAlgorithm.ES384
        "P-521" -> JWSAlgorithm.ES512
        else -> throw IllegalArgumentException("the caller: no such key")
    }

/** The payload of a JWT, for libraries that leave signature and `alg` to their callers. The key decides the algorithm. */
fun checked(jwt: String, key: JWK): String {
    val parsed = JWSObject.parse(jwt)
    require(parsed.header.algorithm == algorithm(key)) { "the caller: another alg" }
    require(parsed.verify(ECDSAVerifier(key.toECKey()))) { "the caller: another signature" }
    return parsed.payload.toString()
}

fun signed(header: JsonNode, payload: JsonNode, key: JWK): String =
    JWSObject(JWSHeader.parse(header.toString()), Payload(payload.toString())).apply { sign(ECDSASigner(key.toECKey())) }.serialize()

/** What follows a name or an index in the paths that begin with it. */
fun List<List<JsonNode>>.within(name: Any): List<List<JsonNode>> =
    filter { it.isNotEmpty() && it[0].asText() == name.toString() }.map { it.drop(1) }

/** What checks signature, `alg`, `typ` and times of an Issuer-signed JWT, for libraries that leave them to their callers. */
fun processor(request: JsonNode): DefaultJWTProcessor<SecurityContext> {
    val key = jwk(request["key"])
    val claims = object : DefaultJWTClaimsVerifier<SecurityContext>(null, emptySet()) {
        override fun currentTime() = Date((request["now"].asDouble() * 1000).toLong())
    }
    claims.maxClockSkew = request["skew"].asInt()
    return DefaultJWTProcessor<SecurityContext>().apply {
        jwsTypeVerifier = DefaultJOSEObjectTypeVerifier(JOSEObjectType("dc+sd-jwt"))
        jwsKeySelector = JWSKeySelector { header, _ -> if (header.algorithm == algorithm(key)) listOf(key.toECKey().toPublicKey()) else emptyList() }
        jwtClaimsSetVerifier = claims
    }
}
