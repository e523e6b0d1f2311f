package envelope_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/store/envelope"
)

const (
	nonceA = "000102030405060708090a0b0c0d0e0f"
	nonceB = "ffeeddccbbaa99887766554433221100"
)

func TestRoundTrip(t *testing.T) {
	for _, value := range [][]byte{nil, []byte("x"), bytes.Repeat([]byte("abc"), 1000)} {
		b, err := envelope.Encode(nonceA, value)
		if err != nil {
			t.Fatal(err)
		}
		nonce, got, err := envelope.Decode(b)
		if err != nil || nonce != nonceA || !bytes.Equal(got, value) {
			t.Fatalf("decode = %q, %d bytes, %v", nonce, len(got), err)
		}
	}
}

// Every torn form of a value is noticed: each prefix, each single damaged
// byte, and each mix of the head of one write with the tail of another.
func TestTornValuesAreNoticed(t *testing.T) {
	a, _ := envelope.Encode(nonceA, []byte("the first value"))
	b, _ := envelope.Encode(nonceB, []byte("another  value!"))
	for i := range a {
		if _, _, err := envelope.Decode(a[:i]); err == nil {
			t.Errorf("prefix of %d bytes accepted", i)
		}
		damaged := bytes.Clone(a)
		damaged[i] ^= 0x10
		if _, _, err := envelope.Decode(damaged); err == nil {
			t.Errorf("damage at byte %d accepted", i)
		}
		mixed := append(bytes.Clone(a[:i]), b[i:]...)
		if bytes.Equal(mixed, a) || bytes.Equal(mixed, b) {
			continue
		}
		if _, _, err := envelope.Decode(mixed); err == nil {
			t.Errorf("mix cut at byte %d accepted", i)
		}
	}
}

func TestEncodeRefusesBadNonce(t *testing.T) {
	for _, nonce := range []string{"", "12", strings.Repeat("z", 32)} {
		if _, err := envelope.Encode(nonce, nil); err == nil {
			t.Errorf("nonce %q accepted", nonce)
		}
	}
}

func FuzzDecode(f *testing.F) {
	good, _ := envelope.Encode(nonceA, []byte("seed"))
	f.Add(good)
	f.Add([]byte("HFE1"))
	f.Fuzz(func(t *testing.T, b []byte) {
		nonce, value, err := envelope.Decode(b)
		if err != nil {
			return
		}
		again, err := envelope.Encode(nonce, value)
		if err != nil || !bytes.Equal(again, b) {
			t.Fatalf("decoded %x does not encode to itself: %v", b, err)
		}
	})
}
