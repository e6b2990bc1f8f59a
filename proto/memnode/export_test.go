package memnode

// Sessions is how many clients have one.
func (s *Server) Sessions() (n int) {
	for i := range s.seats {
		if s.seats[i].taken() {
			n++
		}
	}
	return n
}
