package lineword

// Read copies a line and reports the word that it had all the while, or false if it was locked
// or changed meanwhile; dst then holds garbage. It never waits.
func Read(dst, src *[LineBytes]byte, p *uint64) (Word, bool) {
	before, after := readLine(dst, src, p)
	w := Word(before)
	return w, before == after && !w.Locked()
}

// StoreRelease stores v after everything that the caller stored before. It is for the records
// that stand beside line words.
func StoreRelease(p *uint64, v uint64) { storeRelease(p, v) }
