// What the Go adapters share: the protocol, a clock that the driver sets, and a signer.
package main

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"os"
	"time"

	"github.com/trustbloc/kms-go/doc/jose"
	"github.com/trustbloc/kms-go/doc/jose/jwk"
	esverifiers "github.com/trustbloc/vc-go/crypto-ext/verifiers/ecdsa"
	"github.com/trustbloc/vc-go/crypto-ext/verifiers/ed25519"
	"github.com/trustbloc/vc-go/proof/checker"
	"github.com/trustbloc/vc-go/proof/jwtproofs/eddsa"
	"github.com/trustbloc/vc-go/proof/jwtproofs/es256"
	"github.com/trustbloc/vc-go/proof/jwtproofs/es384"
)

type object = map[string]any

type unsupported string

func (reason unsupported) Error() string { return string(reason) }

// serve answers one request a line until the input ends.
func serve(functions map[string]func(object) (object, error)) {
	input := bufio.NewScanner(os.Stdin)
	input.Buffer(nil, 1<<26)
	for input.Scan() {
		var request object
		if err := json.Unmarshal(input.Bytes(), &request); err != nil {
			panic(err)
		}
		time.Fixed = int64(request["now"].(float64)) // of the driver's overlay: the libraries take no clock
		answer, err := attempt(functions[request["op"].(string)], request)
		switch err.(type) {
		case nil:
			answer["outcome"] = "accepted"
		case unsupported:
			answer = object{"outcome": "unsupported", "error": err.Error()}
		default:
			answer = object{"outcome": "refused", "error": err.Error()}
		}
		line, err := json.Marshal(answer)
		if err != nil {
			panic(err)
		}
		fmt.Println(string(line))
	}
}

func attempt(function func(object) (object, error), request object) (answer object, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("panic: %v", reason)
		}
	}()
	if function == nil {
		return nil, unsupported("it has no such function")
	}
	return function(request)
}

func text(members object, name string) string {
	value, _ := members[name].(string)
	return value
}

// signer signs with the P-256 key of a JWK.
type signer struct {
	jwk, header object
}

func (s signer) Headers() jose.Headers {
	headers := jose.Headers{"alg": "ES256"}
	for name, value := range s.header {
		headers[name] = value
	}
	return headers
}

func (s signer) Sign(data []byte) ([]byte, error) {
	number := func(name string) *big.Int {
		part, err := base64.RawURLEncoding.DecodeString(text(s.jwk, name))
		if err != nil {
			panic(err)
		}
		return new(big.Int).SetBytes(part)
	}
	public := ecdsa.PublicKey{Curve: elliptic.P256(), X: number("x"), Y: number("y")}
	digest := sha256.Sum256(data)
	r, ss, err := ecdsa.Sign(rand.Reader, &ecdsa.PrivateKey{PublicKey: public, D: number("d")}, digest[:])
	if err != nil {
		return nil, err
	}
	return append(r.FillBytes(make([]byte, 32)), ss.FillBytes(make([]byte, 32))...), nil
}

var algorithms = map[string]string{"P-256": "ES256", "P-384": "ES384", "Ed25519": "EdDSA"}

// proofChecker checks a signature with the key of a JWK.
func proofChecker(key object) (*checker.EmbeddedVMProofChecker, error) {
	encoded, err := json.Marshal(key)
	if err != nil {
		return nil, err
	}
	parsed := jwk.JWK{}
	if err := parsed.UnmarshalJSON(encoded); err != nil {
		return nil, err
	}
	return checker.NewEmbeddedJWKProofChecker(&parsed,
		checker.WithSignatureVerifiers(ed25519.New(), esverifiers.NewES256(), esverifiers.NewES384()),
		checker.WithJWTAlg(eddsa.New(), es256.New(), es384.New())), nil
}
