//! Mounts that lend files, as the environment asks for in `TERRACE_PROOF_DIRECT`.

/// The option that does it, for a mount with these others; `None`: nobody asks for it, or they
/// exclude it.
pub(crate) fn wanted(options: &[String]) -> Option<&'static str> {
    let is_asked_for = std::env::var_os("TERRACE_PROOF_DIRECT").is_some();
    let excludes = |option: &String| option == "ro" || option.starts_with("lend=");
    (is_asked_for && !options.iter().any(excludes)).then_some("lend=owner")
}
