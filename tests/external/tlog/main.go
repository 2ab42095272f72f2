// Package main verifies and makes proofs with the libraries of Go and of transparency.dev: JSON in, JSON out.
package main

import (
	"encoding/json"
	"os"

	"github.com/transparency-dev/formats/log"
	fnote "github.com/transparency-dev/formats/note"
	fproof "github.com/transparency-dev/formats/proof"
	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// Given is what this library made, and what is to be made for it.
type Given struct {
	Entries   [][]byte
	Roots     [][]byte
	Inclusion []struct {
		Index, Size uint64
		Path        [][]byte
	}
	Consistency []struct {
		Old, New uint64
		Path     [][]byte
	}
	Checkpoint, Origin, LogKey string
	Witnesses                  []string
	Proof                      []byte
	SignAs, CosignAs           string
}

// Made is what Go makes of it.
type Made struct {
	Roots       []tlog.Hash
	Inclusion   [][]tlog.Hash
	Consistency [][]tlog.Hash
	Tiles       []string
	Signers     int
	Index       uint64
	Note        string
}

type store []tlog.Hash

func (s store) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	found := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		found[i] = s[index]
	}
	return found, nil
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func hash(of []byte) (made tlog.Hash) {
	copy(made[:], of)
	return made
}

func hashes(of [][]byte) (made []tlog.Hash) {
	for _, one := range of {
		made = append(made, hash(one))
	}
	return made
}

func main() {
	var given Given
	check(json.NewDecoder(os.Stdin).Decode(&given))
	var made Made
	var stored store
	for i, entry := range given.Entries {
		stored = append(stored, must(tlog.StoredHashes(int64(i), entry, stored))...)
		made.Roots = append(made.Roots, must(tlog.TreeHash(int64(i+1), stored)))
	}
	hasher := rfc6962.DefaultHasher
	for _, one := range given.Inclusion {
		leaf, root := hasher.HashLeaf(given.Entries[one.Index]), given.Roots[one.Size]
		check(proof.VerifyInclusion(hasher, one.Index, one.Size, leaf, one.Path, root))
		check(tlog.CheckRecord(hashes(one.Path), int64(one.Size), hash(root), int64(one.Index), hash(leaf)))
		made.Inclusion = append(made.Inclusion, must(tlog.ProveRecord(int64(one.Size), int64(one.Index), stored)))
	}
	for _, one := range given.Consistency {
		old, grown := given.Roots[one.Old], given.Roots[one.New]
		check(proof.VerifyConsistency(hasher, one.Old, one.New, one.Path, old, grown))
		check(tlog.CheckTree(hashes(one.Path), int64(one.New), hash(grown), int64(one.Old), hash(old)))
		made.Consistency = append(made.Consistency, must(tlog.ProveTree(int64(one.New), int64(one.Old), stored)))
	}
	for _, tile := range tlog.NewTiles(8, 1000, 70000) {
		made.Tiles = append(made.Tiles, tile.Path())
	}

	verifier := must(note.NewVerifier(given.LogKey))
	var witnesses []note.Verifier
	for _, key := range given.Witnesses {
		witnesses = append(witnesses, must(fnote.NewVerifierForCosignatureV1(key)))
	}
	_, _, opened, err := log.ParseCheckpoint([]byte(given.Checkpoint), given.Origin, verifier, witnesses...)
	check(err)
	made.Signers = len(opened.Sigs)
	var read fproof.TLogProof
	check(read.Unmarshal(given.Proof))
	made.Index = read.Index

	signed := note.Note{Text: opened.Text}
	cosigner := must(fnote.NewSignerForCosignatureV1(given.CosignAs))
	made.Note = string(must(note.Sign(&signed, must(note.NewSigner(given.SignAs)), cosigner)))
	check(json.NewEncoder(os.Stdout).Encode(made))
}
