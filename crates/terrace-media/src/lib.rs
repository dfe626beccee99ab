//! Persistent-memory regions, disks, device models and their simulators.
