//! The lock of an inode's contents. Nobody who gets it meets a file that is lent: it is taken back
//! first, or, for those who only look, brought up to date.

use terrace_store::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::inode::resident::Inner;

/// See the module.
#[derive(Debug)]
pub(crate) struct Borrowable(RwLock<Inner>);

impl Borrowable {
    /// Contents that are not lent.
    pub fn new(inner: Inner) -> Self {
        Self(RwLock::new(inner))
    }

    /// To read; a loan ends.
    #[inline]
    pub fn read(&self) -> RwLockReadGuard<'_, Inner> {
        loop {
            let inner = self.0.read();
            if inner.loan.is_none() {
                return inner;
            }
            drop(inner);
            drop(self.write());
        }
    }

    /// To change; a loan ends.
    #[inline]
    pub fn write(&self) -> RwLockWriteGuard<'_, Inner> {
        let mut inner = self.0.write();
        if inner.loan.is_some() {
            inner.take_back();
        }
        inner
    }

    /// To read, if nobody else changes it and it is not lent.
    #[inline]
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, Inner>> {
        self.0.try_read().filter(|inner| inner.loan.is_none())
    }

    /// To change, if nobody else has it and it is not lent.
    #[inline]
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, Inner>> {
        self.0.try_write().filter(|inner| inner.loan.is_none())
    }

    /// To look at what it was a moment ago: a loan goes on.
    #[inline]
    pub fn look(&self) -> RwLockReadGuard<'_, Inner> {
        let inner = self.0.read();
        if inner.loan.is_none() {
            return inner;
        }
        drop(inner);
        self.0.write().look_at();
        self.0.read()
    }

    /// Brings it up to date, unless it is in use just now, here or by its borrower.
    pub fn peek(&self) {
        if let Some(mut inner) = self.0.try_write() {
            inner.peek_at();
        }
    }

    /// The process that has it now.
    pub fn borrower(&self) -> Option<u64> {
        self.0.read().borrower()
    }
}
