//! Files that other processes read and write in PM by themselves.

use terrace_media::Pm;
use terrace_store::delegation::{NotLent, Segment};
use terrace_store::error::FsResult;
use terrace_store::sync::Arc;

use super::Volume;
use crate::base::types::Ino;
use crate::inode::resident::loans::Lent;
use crate::ops::lending::{LoanStats, Renewed};

impl Volume {
    /// Why no file of this volume can be lent, whatever the options of the mount.
    pub fn lends_nothing(&self) -> Option<&'static str> {
        self.parts.lending.lends_nothing()
    }

    /// PM and the control pages, which a borrower maps; `None`: nothing is lent.
    pub fn loan_memory(&self) -> Option<(Arc<Pm>, Arc<Segment>)> {
        let segment =
            self.parts.options.loans.as_ref().filter(|_| self.parts.lending.may_lend())?;
        Some((Arc::clone(&self.parts.store.pm), Arc::clone(segment)))
    }

    /// Lends a file to process `borrower`, with about so many PM blocks to write to
    /// (`terrace_store::delegation` says what that means). The next use of the file here takes it
    /// back.
    ///
    /// # Errors
    /// `ESTALE`; damage. PM errors.
    pub fn lend(&self, ino: Ino, borrower: u64, blocks: u64) -> FsResult<Result<Lent, NotLent>> {
        self.parts.lending.lend(ino, borrower, blocks)
    }

    /// Why a file cannot be lent now; `None`: nothing is known to be in the way. A loan ends.
    pub fn obstacle(&self, ino: Ino) -> Option<NotLent> {
        self.parts.lending.obstacle_of(ino)
    }

    /// Lends a file anew to the process that has it, with its log tidied up.
    ///
    /// # Errors
    /// As [`Self::lend`].
    pub fn renew_loan(
        &self,
        ino: Ino,
        borrower: u64,
        blocks: u64,
    ) -> FsResult<Result<Renewed, NotLent>> {
        self.parts.lending.renew(ino, borrower, blocks)
    }

    /// Takes a file back, if it is lent.
    ///
    /// # Errors
    /// `ESTALE`.
    pub fn take_back(&self, ino: Ino) -> FsResult<()> {
        self.parts.lending.take_back(ino)
    }

    /// A process is done with a file: takes it back, if it is lent to this process.
    pub fn give_back(&self, ino: Ino, borrower: u64) {
        self.parts.lending.give_back(ino, borrower);
    }

    /// A process has gone: takes back all that it has borrowed.
    pub fn take_back_from(&self, borrower: u64) {
        self.parts.lending.take_back_from(borrower);
    }

    /// A process stores no more to what a broken loan of it has left in quarantine.
    pub fn let_go(&self, borrower: u64, page: usize, generation: u32) {
        self.parts.lending.let_go(borrower, page, generation);
    }

    /// The process that a file is lent to.
    pub fn borrower(&self, ino: Ino) -> Option<u64> {
        self.parts.loans.borrower(ino)
    }

    /// Whether a file is lent.
    pub fn is_lent(&self, ino: Ino) -> bool {
        self.parts.lending.is_lent(ino)
    }

    /// The files that are lent, each with the process that has it.
    pub fn lent(&self) -> Vec<(Ino, u64)> {
        self.parts.loans.files()
    }

    /// The loans of this moment.
    pub fn loans(&self) -> LoanStats {
        self.parts.lending.stats()
    }
}
