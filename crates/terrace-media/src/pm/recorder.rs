//! Who records the stores to a region: a simulator, in builds with the feature `simulators`. In
//! other builds the type has no value, so that the compiler drops what would call it.

#[cfg(feature = "simulators")]
pub(super) type Recorder = std::sync::Arc<crate::sim::PmSim>;

#[cfg(not(feature = "simulators"))]
pub(super) enum Recorder {}

#[cfg(not(feature = "simulators"))]
impl Recorder {
    pub(super) fn store(&self, _off: u64, _data: &[u8], _store: impl FnOnce()) {
        match *self {}
    }

    pub(super) fn store_nt(&self, _off: u64, _data: &[u8], _store: impl FnOnce()) {
        match *self {}
    }

    pub(super) fn flush_edges(&self, _off: u64, _len: u64) {
        match *self {}
    }

    pub(super) fn compare_exchange(
        &self,
        _off: u64,
        _new: u64,
        _exchange: impl FnOnce() -> Result<u64, u64>,
    ) -> Result<u64, u64> {
        match *self {}
    }

    pub(super) fn flush(&self, _off: u64, _len: u64) {
        match *self {}
    }

    pub(super) fn fence(&self) -> bool {
        match *self {}
    }
}
