// Package zipf draws ranks with a Zipf distribution by the method of Gray et al. ("Quickly
// Generating Billion-Record Synthetic Databases", SIGMOD 1994), as YCSB does: rank i, from 0, has
// a probability in proportion to (i+1)^-theta. Ranks 0 and 1 come out exactly so, later ones by
// an approximation whose cumulative error stays below two percent.
//
// Ranks are by popularity. Scramble gives keys without that order, as YCSB's scrambled Zipfian:
// which keys are popular then follows from a seed.
//
// A Zipf is immutable and may be shared; random sources are the callers'.
package zipf

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
)

// ErrParameters: no distribution has these.
var ErrParameters = errors.New("bad parameters of a Zipf distribution")

// Zipf draws ranks below a number.
type Zipf struct {
	n     uint64
	theta float64
	zeta  float64 // sum of i^-theta for i from 1 to n
	alpha float64
	eta   float64
	two   float64 // weight of the first two ranks
}

// MostTheta is the largest theta that command lines take.
const MostTheta = 0.9999

// New makes a distribution over n ranks. theta lies between 0, uniform, and 1, both excluded; YCSB
// uses 0.99.
func New(n uint64, theta float64) (*Zipf, error) {
	if n == 0 || !(theta > 0 && theta < 1) {
		return nil, fmt.Errorf("%w: %d ranks with theta %v; ranks must be positive, and theta "+
			"between 0 and 1", ErrParameters, n, theta)
	}
	z := &Zipf{n: n, theta: theta, zeta: zeta(n, theta), alpha: 1 / (1 - theta),
		two: 1 + math.Pow(0.5, theta)}
	z.eta = (1 - math.Pow(2/float64(n), 1-theta)) / (1 - z.two/z.zeta)
	return z, nil
}

// summed is the number of terms that zeta adds up one by one.
const summed = 1 << 20

// zeta is the sum of i^-theta for i from 1 to n: term by term, and the rest by Euler and Maclaurin,
// to about 13 digits.
func zeta(n uint64, theta float64) float64 {
	m := min(n, summed)
	sum := 0.0
	for i := m; i >= 1; i-- {
		sum += math.Pow(float64(i), -theta)
	}
	if n > m {
		a, b := float64(m), float64(n)
		sum += (math.Pow(b, 1-theta) - math.Pow(a, 1-theta)) / (1 - theta)
		sum += (math.Pow(b, -theta) - math.Pow(a, -theta)) / 2
		sum -= theta / 12 * (math.Pow(b, -theta-1) - math.Pow(a, -theta-1))
	}
	return sum
}

// Probability of a rank.
func (z *Zipf) Probability(rank uint64) float64 {
	return math.Pow(float64(rank+1), -z.theta) / z.zeta
}

// Rank draws a rank. It does not allocate.
func (z *Zipf) Rank(r *rand.Rand) uint64 {
	u := r.Float64()
	switch uz := u * z.zeta; {
	case uz < 1 || z.n == 1:
		return 0
	case uz < z.two || z.n == 2:
		return 1
	}
	return min(uint64(float64(z.n)*math.Pow(z.eta*u-z.eta+1, z.alpha)), z.n-1)
}

// Scramble is the key, below n, of a rank. Several ranks may have one key, and some keys have none,
// as in YCSB.
func Scramble(rank, seed, n uint64) uint64 {
	x := rank + (seed+1)*0x9e3779b97f4a7c15 // the steps of splitmix64
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	key, _ := bits.Mul64(x^x>>31, n)
	return key
}
