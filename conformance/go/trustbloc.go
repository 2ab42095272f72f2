// The module github.com/trustbloc/vc-go: `verifier.Parse` with the key's algorithm, `typ`, audience and nonce.
package main

import (
	"encoding/json"
	"time"

	gojson "github.com/go-jose/go-jose/v3/json"
	"github.com/go-jose/go-jose/v3/jwt"
	"github.com/trustbloc/vc-go/sdjwt/holder"
	"github.com/trustbloc/vc-go/sdjwt/issuer"
	"github.com/trustbloc/vc-go/sdjwt/verifier"
)

func verify(request object) (object, error) {
	key := request["key"].(object)
	proofs, err := proofChecker(key)
	if err != nil {
		return nil, err
	}
	options := []verifier.ParseOpt{
		verifier.WithSignatureVerifier(proofs),
		verifier.WithIssuerSigningAlgorithms([]string{algorithms[text(key, "crv")]}),
		verifier.WithHolderSigningAlgorithms([]string{"ES256", "ES384", "EdDSA"}),
		verifier.WithExpectedTypHeader("dc+sd-jwt"),
		verifier.WithLeewayForClaimsValidation(time.Duration(request["skew"].(float64)) * time.Second),
	}
	if nonce := text(request, "nonce"); nonce != "" {
		options = append(options, verifier.WithHolderVerificationRequired(true),
			verifier.WithExpectedNonceForHolderVerification(nonce),
			verifier.WithExpectedAudienceForHolderVerification(text(request, "audience")))
	}
	claims, err := verifier.Parse(text(request, "text"), options...)
	if err != nil {
		return nil, err
	}
	read, err := gojson.Marshal(claims) // its numbers are of a type that only this package writes as numbers
	return object{"claims": json.RawMessage(read)}, err
}

func issue(request object) (object, error) {
	hidden := map[string]bool{}
	for _, path := range request["hide"].([]any) {
		if len(path.([]any)) > 1 {
			return nil, unsupported("it hides all members of an object, or the object")
		}
		hidden[path.([]any)[0].(string)] = true
	}
	claims, shown := request["claims"].(object), []string{}
	for name := range claims {
		if !hidden[name] {
			shown = append(shown, name)
		}
	}
	header := request["header"].(object)
	token, err := issuer.New(text(claims, "iss"), claims, header, signer{request["key"].(object), header},
		issuer.WithSDJWTVersion(5), issuer.WithNonSelectivelyDisclosableClaims(shown))
	if err != nil {
		return nil, err
	}
	combined, err := token.Serialize(false)
	return object{"text": combined}, err
}

func present(request object) (object, error) {
	unchecked := holder.WithSignatureVerifier(&holder.NoopSignatureVerifier{})
	claims, err := holder.Parse(text(request, "text"), unchecked, holder.WithIssuerSigningAlgorithms([]string{"ES256"}))
	if err != nil {
		return nil, err
	}
	names, disclosures := map[any]bool{}, []string{}
	for _, path := range request["show"].([]any) {
		names[path.([]any)[len(path.([]any))-1]] = true
	}
	for _, claim := range claims {
		if names[claim.Name] {
			disclosures = append(disclosures, claim.Disclosure)
		}
	}
	header := object{"typ": "kb+jwt"}
	payload := holder.BindingPayload{text(request, "nonce"), text(request, "audience"), jwt.NewNumericDate(time.Now())}
	binding := holder.BindingInfo{Payload: payload, Signer: signer{request["key"].(object), header}, Headers: header}
	combined, err := holder.CreatePresentation(text(request, "text"), disclosures, holder.WithHolderVerification(&binding))
	return object{"text": combined}, err
}

func main() {
	serve(map[string]func(object) (object, error){"verify": verify, "issue": issue, "present": present})
}
