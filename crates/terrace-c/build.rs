//! Names the shared library, so that programs find it by its version, and keeps it in processes
//! that unload it: the handler of SIGBUS is in it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libterrace.so.0");
}
