//! The way of messages that the environment asks for, in `TERRACE_PROOF_TRANSPORT`.

/// That of volumes whose options name none; `None`: the default of `terrace mount`.
pub(crate) fn wanted() -> Option<String> {
    std::env::var("TERRACE_PROOF_TRANSPORT").ok()
}

/// Whether volumes are mounted with messages over io_uring, unless their options say otherwise.
pub fn is_over_io_uring() -> bool {
    wanted().is_some_and(|transport| transport == "io_uring")
}
