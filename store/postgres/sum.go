package postgres

import (
	"math/big"

	"github.com/holdfast-dev/holdfast/store/backend"
)

// sumInside parses the current value and says whether the add would stay
// inside its bounds, without overflow.
func sumInside(value []byte, req backend.AddRequest) (current int64, inside bool) {
	n, ok := new(big.Int).SetString(string(value), 10)
	if !ok || !n.IsInt64() {
		return 0, false
	}
	sum := new(big.Int).Add(n, big.NewInt(req.Delta))
	return n.Int64(), sum.Cmp(big.NewInt(req.Min)) >= 0 && sum.Cmp(big.NewInt(req.Max)) <= 0
}
