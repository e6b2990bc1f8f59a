package ibv

// providerName is what endpoints and listings call this provider.
const providerName = "ibv"
