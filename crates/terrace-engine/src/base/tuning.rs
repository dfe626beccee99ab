//! The policy's thresholds as they are now: operations read one at a time, whoever decides on
//! several takes a copy.

use terrace_policy::{OutOfRange, PARAMS, Param, Params};
use terrace_store::sync::atomic::{AtomicU64, Ordering};

/// See the module.
#[derive(Debug)]
pub(crate) struct Tuning([AtomicU64; PARAMS]);

impl Tuning {
    pub fn new(params: &Params) -> Self {
        Self(Param::ALL.map(|param| AtomicU64::new(params.get(param))))
    }

    /// The value of a threshold.
    #[inline]
    pub fn get(&self, param: Param) -> u64 {
        self.0[param as usize].load(Ordering::Relaxed)
    }

    /// All of them.
    pub fn params(&self) -> Params {
        let mut params = Params::default();
        for param in Param::ALL {
            params.set(param, self.get(param)).expect("only values within their ranges are stored");
        }
        params
    }

    /// Changes a threshold.
    ///
    /// # Errors
    /// A value outside its range.
    pub fn set(&self, param: Param, value: u64) -> Result<(), OutOfRange> {
        param.tunable().check(value)?;
        self.0[param as usize].store(value, Ordering::Relaxed);
        Ok(())
    }
}
