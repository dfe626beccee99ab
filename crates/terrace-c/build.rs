//! Names the shared library, so that programs find it by its version.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libterrace.so.0");
}
