//! The rules, as tables to edit.

/// Crates from top to bottom, as code writes them. A crate uses crates on lower floors only.
pub const CRATES: &[&[&str]] = &[
    &["terrace_fuzz", "terrace_bench", "terrace_proof", "terrace_sources"],
    &["terrace_crash", "terrace_damage", "terrace_nullfs"],
    &["terrace", "terrace_c", "terrace_preload"],
    &["terrace_fuse"],
    &["terrace_direct", "terrace_engine", "terrace_simulate"],
    &["terrace_store"],
    &["terrace_layout", "terrace_media", "terrace_policy", "terrace_trace", "terrace_transport"],
];

/// Packages whose modules have an order, from top to bottom. A module uses lower ones only.
pub const MODULES: &[(&str, &[&str])] = &[(
    "terrace-engine",
    &["lib", "api", "tools", "mount", "ops", "tiering", "pageio", "inode", "base"],
)];
