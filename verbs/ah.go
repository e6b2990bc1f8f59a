package verbs

// AH is an address handle (ibv_ah): the way to a peer's port, for UD.
type AH struct {
	ctx  *Context
	pd   *PD
	drv  DriverAH
	once closeOnce
}

// CreateAH makes an address handle (ibv_create_ah). Attributes left zero take defaults.
func (pd *PD) CreateAH(a AHAttr) (*AH, error) {
	const op = "ibv_create_ah"
	c := pd.ctx
	if a.Port == 0 {
		a.Port = 1
	}
	if a.HopLimit == 0 {
		a.HopLimit = defaultHopLimit
	}
	if a.Port < 1 || a.Port > c.attr.Ports {
		return nil, c.invalid(op, "", "port %d of %d", a.Port, c.attr.Ports)
	}
	if err := pd.enter(op); err != nil {
		return nil, err
	}
	defer c.life.RUnlock()
	port, err := c.queryPort(a.Port)
	if err != nil {
		return nil, err
	}
	if a.GIDIndex, err = c.resolveGID(op, port, a.GIDIndex); err != nil {
		return nil, err
	}
	if a.ServiceLevel > 15 {
		return nil, c.invalid(op, "", "service level %d is not 4 bits", a.ServiceLevel)
	}
	d, err := pd.drv.CreateAH(a)
	if err != nil {
		return nil, c.wrap(op, err)
	}
	ah := &AH{ctx: c, pd: pd, drv: d}
	if err := c.adopt(op, ah); err != nil {
		return nil, closeAfter(err, d)
	}
	c.setAH(d.Handle(), ah)
	return ah, nil
}

// CreateAHTo makes an address handle to the port of a UD endpoint.
func (pd *PD) CreateAHTo(e Endpoint) (*AH, error) {
	return pd.CreateAH(AHAttr{GID: e.GID, LID: e.LID})
}

// defaultHopLimit for RoCE v2; 1 would not survive a router.
const defaultHopLimit = 64

// Handle is what WR.AH carries.
func (ah *AH) Handle() uint32 { return ah.drv.Handle() }

// setAH changes the table that posts look handles up in.
func (c *Context) setAH(handle uint32, ah *AH) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahs.Set(handle, ah)
}

func (ah *AH) closeRank() int { return rankAH }

// Close destroys the handle (ibv_destroy_ah). Posting with it is refused from then on; the caller
// sees to it that no post with it runs at the same time.
func (ah *AH) Close() error {
	return ah.once.do(func() error {
		ah.ctx.setAH(ah.Handle(), nil)
		ah.ctx.disown(ah)
		return ah.ctx.wrap("ibv_destroy_ah", ah.drv.Close())
	})
}
