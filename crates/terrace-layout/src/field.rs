//! The macro that declares structures on media, and what it remembers of them.

/// One field of a structure on media.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Name in code and in `docs/FORMAT.md`.
    pub name: &'static str,
    /// Bytes from the start of the structure.
    pub offset: usize,
    /// Bytes.
    pub size: usize,
}

/// A structure on media.
pub trait MediaStruct:
    zerocopy::FromBytes + zerocopy::IntoBytes + zerocopy::Immutable + Copy
{
    /// Name in code and in `docs/FORMAT.md`.
    const NAME: &'static str;
    /// Fields in order.
    const FIELDS: &'static [Field];

    /// Reads the structure from the start of `bytes`, which must be long enough.
    fn from_bytes(bytes: &[u8]) -> Self {
        Self::read_from_bytes(&bytes[..size_of::<Self>()]).expect("length is exact")
    }
}

/// Declares a structure on media: `repr(C)`, of the stated size, without padding, with a table of
/// its fields.
macro_rules! media_struct {
    ($(#[$meta:meta])* pub struct $name:ident [$size:literal] {
        $($(#[$fmeta:meta])* pub $field:ident: $ty:ty,)*
    }) => {
        $(#[$meta])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq,
                 zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable)]
        pub struct $name {
            $($(#[$fmeta])* pub $field: $ty,)*
        }

        const _: () = assert!(size_of::<$name>() == $size);

        impl crate::MediaStruct for $name {
            const NAME: &'static str = stringify!($name);
            const FIELDS: &'static [crate::Field] = &[$(crate::Field {
                name: stringify!($field),
                offset: core::mem::offset_of!($name, $field),
                size: size_of::<$ty>(),
            },)*];
        }
    };
}
pub(crate) use media_struct;
