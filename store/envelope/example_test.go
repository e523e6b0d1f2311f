package envelope_test

import (
	"fmt"

	"github.com/holdfast-dev/holdfast/store/envelope"
)

func Example() {
	b, err := envelope.Encode("000102030405060708090a0b0c0d0e0f", []byte("value"))
	if err != nil {
		fmt.Println(err)
		return
	}
	_, value, err := envelope.Decode(b)
	fmt.Println(string(value), err)
	_, _, err = envelope.Decode(b[:len(b)-1])
	fmt.Println("cut off:", err)
	// Output:
	// value <nil>
	// cut off: the header says 5 bytes and 4 follow
}
