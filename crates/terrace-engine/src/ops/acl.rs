//! POSIX access control lists: what acl(5) and the kernel's own file systems do with them, on
//! values alone.
//!
//! An ACL arrives and is stored in the form of the extended attributes `system.posix_acl_access`
//! and `system.posix_acl_default`: a little-endian version word (2), then eight bytes per entry
//! (tag, permissions, id).
//!
//! Invariant: an [`Acl`] is valid. Its entries come in the order owner, named users, group, named
//! groups, mask, others; owner, group and others are there exactly once, and the mask at most once,
//! and at least if there is a named entry.

use terrace_store::error::{FsResult, fail};

/// The owner.
pub(crate) const USER_OBJ: u16 = 0x01;
/// A user by number.
pub(crate) const USER: u16 = 0x02;
/// The owning group.
pub(crate) const GROUP_OBJ: u16 = 0x04;
/// A group by number.
pub(crate) const GROUP: u16 = 0x08;
/// The most that named users, the group and named groups can have.
pub(crate) const MASK: u16 = 0x10;
/// Everybody else.
pub(crate) const OTHER: u16 = 0x20;

/// The id of an entry that names nobody.
const NO_ID: u32 = u32::MAX;
const VERSION: u32 = 2;
const HEADER_BYTES: usize = 4;
const ENTRY_BYTES: usize = 8;
/// Read, write, execute for owner, group and others.
const RWX_ALL: u32 = 0o777;

/// One entry: `perm` is read 4, write 2, execute 1; `id` matters for named users and groups only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AclEntry {
    pub tag: u16,
    pub perm: u16,
    pub id: u32,
}

/// An access control list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Acl(Vec<AclEntry>);

/// What a new inode gets from its directory's default ACL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Inherited {
    /// The mode it was asked for, less what the ACL does not grant.
    pub mode: u32,
    /// Its access ACL, unless the mode says it all.
    pub access: Option<Vec<u8>>,
    /// A new directory's default ACL.
    pub default: Option<Vec<u8>>,
}

impl Acl {
    /// A list of these entries.
    ///
    /// # Errors
    /// `EINVAL` if they break the invariant.
    pub fn new(entries: Vec<AclEntry>) -> FsResult<Acl> {
        // Which tags may come next: an owner; then users or the group; then groups, a mask or
        // others; then nothing.
        let mut next = USER_OBJ;
        let mut named = false;
        for entry in &entries {
            let allowed = entry.tag & next != 0 && entry.tag.is_power_of_two() && entry.perm <= 7;
            if !allowed {
                return fail(libc::EINVAL);
            }
            next = match entry.tag {
                USER_OBJ => USER | GROUP_OBJ,
                USER => next,
                GROUP_OBJ if named => GROUP | MASK,
                GROUP_OBJ => GROUP | MASK | OTHER,
                GROUP => GROUP | MASK,
                MASK => OTHER,
                _ => 0,
            };
            if entry.tag & (USER | GROUP) != 0 {
                named = true;
                if entry.id == NO_ID {
                    return fail(libc::EINVAL);
                }
            }
        }
        if next == 0 { Ok(Acl(entries)) } else { fail(libc::EINVAL) }
    }

    /// Reads the value of an extended attribute; `None`: it has no entries, which stands for no
    /// ACL.
    ///
    /// # Errors
    /// `EOPNOTSUPP` for another version, `EINVAL` for anything that is no valid ACL.
    pub fn decode(value: &[u8]) -> FsResult<Option<Acl>> {
        let Some((version, entries)) = value.split_first_chunk::<HEADER_BYTES>() else {
            return fail(libc::EINVAL);
        };
        if u32::from_le_bytes(*version) != VERSION {
            return fail(libc::EOPNOTSUPP);
        }
        let (entries, rest) = entries.as_chunks::<ENTRY_BYTES>();
        if !rest.is_empty() {
            return fail(libc::EINVAL);
        }
        if entries.is_empty() {
            return Ok(None);
        }
        let entry = |&[t0, t1, p0, p1, id @ ..]: &[u8; ENTRY_BYTES]| {
            let tag = u16::from_le_bytes([t0, t1]);
            let named = tag & (USER | GROUP) != 0;
            AclEntry {
                tag,
                perm: u16::from_le_bytes([p0, p1]),
                // An entry without an id keeps nothing that a program leaves in that field.
                id: if named { u32::from_le_bytes(id) } else { NO_ID },
            }
        };
        Acl::new(entries.iter().map(entry).collect()).map(Some)
    }

    /// The value of an extended attribute.
    pub fn encode(&self) -> Vec<u8> {
        let mut value = VERSION.to_le_bytes().to_vec();
        for entry in &self.0 {
            value.extend(entry.tag.to_le_bytes());
            value.extend(entry.perm.to_le_bytes());
            value.extend(entry.id.to_le_bytes());
        }
        value
    }

    /// The permission bits that stand for this ACL, and whether they say all of it. Where there is
    /// a mask it is what the group's bits show.
    pub fn equivalent_mode(&self) -> (u32, bool) {
        let bits = u32::from(self.perm(USER_OBJ)) << 6
            | u32::from(self.perm(self.group_class())) << 3
            | u32::from(self.perm(OTHER));
        (bits, self.0.len() == 3)
    }

    /// `chmod`: sets what the permission bits of `mode` stand for.
    pub fn set_mode(&mut self, mode: u32) {
        let group = self.group_class();
        *self.perm_mut(USER_OBJ) = (mode >> 6 & 7) as u16;
        *self.perm_mut(group) = (mode >> 3 & 7) as u16;
        *self.perm_mut(OTHER) = (mode & 7) as u16;
    }

    /// As a default ACL: the access ACL of an inode created with `mode`, and the mode it gets. Both
    /// grant what the ACL and the mode agree on.
    pub fn create_masq(&self, mode: u32) -> (Acl, u32) {
        let mut acl = self.clone();
        let (bits, _) = self.equivalent_mode();
        acl.set_mode(bits & mode);
        (acl, mode & (bits | !RWX_ALL))
    }

    /// The entry that the group's permission bits stand for.
    fn group_class(&self) -> u16 {
        let masked = self.0.iter().any(|entry| entry.tag == MASK);
        if masked { MASK } else { GROUP_OBJ }
    }

    fn perm(&self, tag: u16) -> u16 {
        let entry = self.0.iter().find(|entry| entry.tag == tag);
        entry.expect("the list is valid").perm
    }

    fn perm_mut(&mut self, tag: u16) -> &mut u16 {
        let entry = self.0.iter_mut().find(|entry| entry.tag == tag);
        &mut entry.expect("the list is valid").perm
    }
}

/// What a new inode gets from a directory with this default ACL. `mode` is as the program asked for
/// it: the umask has no say where there is a default ACL.
///
/// # Errors
/// As [`Acl::decode`].
pub(crate) fn inherit(default_acl: &[u8], mode: u32, is_dir: bool) -> FsResult<Inherited> {
    let Some(default) = Acl::decode(default_acl)? else {
        return Ok(Inherited { mode, access: None, default: None });
    };
    let (access, mode) = default.create_masq(mode);
    let (_, minimal) = access.equivalent_mode();
    Ok(Inherited {
        mode,
        access: (!minimal).then(|| access.encode()),
        default: is_dir.then(|| default.encode()),
    })
}

/// The access ACL after a `chmod` to `mode`.
///
/// # Errors
/// As [`Acl::decode`].
pub(crate) fn chmod(access_acl: &[u8], mode: u32) -> FsResult<Vec<u8>> {
    let Some(mut acl) = Acl::decode(access_acl)? else {
        return Ok(access_acl.to_vec());
    };
    acl.set_mode(mode);
    Ok(acl.encode())
}

/// Setting an access ACL on an inode with `mode`: the mode it gets, and what to store (`None`:
/// nothing, the mode says it all).
///
/// # Errors
/// As [`Acl::decode`].
pub(crate) fn set_access(value: &[u8], mode: u32) -> FsResult<(u32, Option<Vec<u8>>)> {
    let Some(acl) = Acl::decode(value)? else {
        return Ok((mode, None));
    };
    let (bits, minimal) = acl.equivalent_mode();
    Ok((mode & !RWX_ALL | bits, (!minimal).then(|| acl.encode())))
}

/// Setting a directory's default ACL: what to store (`None`: nothing, it is removed).
///
/// # Errors
/// As [`Acl::decode`].
pub(crate) fn set_default(value: &[u8]) -> FsResult<Option<Vec<u8>>> {
    Ok(Acl::decode(value)?.map(|acl| acl.encode()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ACL in the short text form of acl(5): `u::rwx,u:7:r--,g::r-x,m::rwx,o::---`, in this
    /// order.
    fn acl(text: &str) -> Acl {
        Acl::new(entries(text)).unwrap()
    }

    fn entries(text: &str) -> Vec<AclEntry> {
        let entry = |text: &str| {
            let fields: Vec<&str> = text.split(':').collect();
            let tag = match (fields[0], fields[1]) {
                ("u", "") => USER_OBJ,
                ("u", _) => USER,
                ("g", "") => GROUP_OBJ,
                ("g", _) => GROUP,
                ("m", _) => MASK,
                _ => OTHER,
            };
            let perm = fields[2].bytes().fold(0, |perm, c| perm << 1 | u16::from(c != b'-'));
            AclEntry { tag, perm, id: fields[1].parse().unwrap_or(NO_ID) }
        };
        text.split(',').map(entry).collect()
    }

    fn errno<T>(result: FsResult<T>) -> Option<i32> {
        result.err().map(|error| error.errno())
    }

    #[test]
    fn the_attribute_form_is_the_kernels() {
        let value = acl("u::rw-,u:1000:r--,g::r--,m::rw-,o::---").encode();
        #[rustfmt::skip]
        assert_eq!(value, [
            2, 0, 0, 0,
            1, 0, 6, 0, 255, 255, 255, 255,
            2, 0, 4, 0, 0xe8, 3, 0, 0,
            4, 0, 4, 0, 255, 255, 255, 255,
            0x10, 0, 6, 0, 255, 255, 255, 255,
            0x20, 0, 0, 0, 255, 255, 255, 255,
        ]);
        assert_eq!(Acl::decode(&value).unwrap().unwrap().encode(), value);
        // An id where none belongs is tolerated and not kept.
        let mut odd = value.clone();
        odd[8..12].fill(0);
        assert_eq!(Acl::decode(&odd).unwrap().unwrap().encode(), value);
    }

    #[test]
    fn malformed_values_are_refused() {
        let value = acl("u::rw-,g::r--,o::---").encode();
        for len in 0..4 {
            assert_eq!(errno(Acl::decode(&value[..len])), Some(libc::EINVAL));
        }
        assert_eq!(errno(Acl::decode(&[1, 0, 0, 0])), Some(libc::EOPNOTSUPP));
        for len in 5..value.len() {
            assert_eq!(errno(Acl::decode(&value[..len])), Some(libc::EINVAL), "{len} bytes");
        }
        let mut perm = value.clone();
        perm[6] = 8;
        assert_eq!(errno(Acl::decode(&perm)), Some(libc::EINVAL));
        for tag in [0u8, 3, 0x40] {
            let mut odd = value.clone();
            odd[4] = tag;
            assert_eq!(errno(Acl::decode(&odd)), Some(libc::EINVAL), "tag {tag}");
        }
    }

    #[test]
    fn no_entries_stand_for_no_acl() {
        let none = [2, 0, 0, 0];
        assert_eq!(Acl::decode(&none).unwrap(), None);
        assert_eq!(set_access(&none, 0o2750).unwrap(), (0o2750, None));
        assert_eq!(set_default(&none).unwrap(), None);
        assert_eq!(chmod(&none, 0o700).unwrap(), none);
        let inherited = inherit(&none, 0o644, true).unwrap();
        assert_eq!(inherited, Inherited { mode: 0o644, access: None, default: None });
    }

    #[test]
    fn only_valid_lists_exist() {
        for valid in [
            "u::rwx,g::r-x,o::---",
            "u::rwx,g::r-x,m::rwx,o::---",
            "u::rwx,u:1:r--,g::r-x,m::rwx,o::---",
            "u::rwx,u:2:r--,u:1:r--,g::r-x,g:3:--x,g:4:--x,m::rwx,o::---",
        ] {
            assert!(Acl::new(entries(valid)).is_ok(), "{valid}");
        }
        for invalid in [
            "u::rwx",
            "g::r-x,o::---",
            "u::rwx,o::---",
            "u::rwx,g::r-x",
            "u::rwx,u::rwx,g::r-x,o::---",
            "u::rwx,g::r-x,g::r-x,o::---",
            "u::rwx,g::r-x,o::---,o::---",
            "u::rwx,g::r-x,m::rwx,m::rwx,o::---",
            "g::r-x,u::rwx,o::---",
            "u::rwx,g::r-x,u:1:r--,m::rwx,o::---",
            "u::rwx,g:1:r--,g::r-x,m::rwx,o::---",
            "u::rwx,u:1:r--,g::r-x,o::---",
            "u::rwx,g::r-x,g:1:r--,o::---",
            "u::rwx,g::r-x,m::rwx,g:1:r--,o::---",
            "u::rwx,u:4294967295:r--,g::r-x,m::rwx,o::---",
        ] {
            assert_eq!(errno(Acl::new(entries(invalid))), Some(libc::EINVAL), "{invalid}");
        }
    }

    #[test]
    fn the_mask_is_what_the_groups_bits_show() {
        assert_eq!(acl("u::rwx,g::r-x,o::--x").equivalent_mode(), (0o751, true));
        assert_eq!(acl("u::rwx,g::r-x,m::rw-,o::--x").equivalent_mode(), (0o761, false));
        let named = acl("u::rw-,u:1:rwx,g::r--,m::---,o::---");
        assert_eq!(named.equivalent_mode(), (0o600, false));
    }

    #[test]
    fn chmod_changes_the_mask_if_there_is_one() {
        let mut minimal = acl("u::rwx,g::r-x,o::---");
        minimal.set_mode(0o100_624);
        assert_eq!(minimal, acl("u::rw-,g::-w-,o::r--"));
        let value = acl("u::rwx,u:1:rwx,g::r-x,m::rwx,o::---").encode();
        let changed = chmod(&value, 0o4624).unwrap();
        assert_eq!(changed, acl("u::rw-,u:1:rwx,g::r-x,m::-w-,o::r--").encode());
    }

    #[test]
    fn setting_a_minimal_acl_is_a_chmod() {
        let minimal = acl("u::rw-,g::r--,o::---").encode();
        assert_eq!(set_access(&minimal, 0o4777).unwrap(), (0o4640, None));
        let named = acl("u::rw-,u:9:rw-,g::r--,m::rw-,o::---").encode();
        assert_eq!(set_access(&named, 0o1777).unwrap(), (0o1660, Some(named.clone())));
        assert_eq!(set_default(&named).unwrap(), Some(named));
    }

    #[test]
    fn a_default_acl_limits_the_mode_and_the_mode_limits_it() {
        // Named entries: the mask takes the group's bits of the mode, the group's own entry stays.
        let default = acl("u::rwx,u:1:rwx,g::rwx,m::rwx,o::r-x").encode();
        let file = inherit(&default, 0o2640, false).unwrap();
        assert_eq!(file.mode, 0o2640);
        assert_eq!(file.access, Some(acl("u::rw-,u:1:rwx,g::rwx,m::r--,o::---").encode()));
        assert_eq!(file.default, None);
        let dir = inherit(&default, 0o777, true).unwrap();
        assert_eq!((dir.mode, dir.default), (0o775, Some(default)));
        // A mask alone is not minimal either.
        let masked = acl("u::rwx,g::r-x,m::r--,o::---").encode();
        let file = inherit(&masked, 0o666, false).unwrap();
        assert_eq!(file.mode, 0o640);
        assert_eq!(file.access, Some(acl("u::rw-,g::r-x,m::r--,o::---").encode()));
        // Minimal: a umask for this directory, and nothing to store with a file.
        let minimal = acl("u::rwx,g::r-x,o::---").encode();
        let file = inherit(&minimal, 0o666, false).unwrap();
        assert_eq!(file, Inherited { mode: 0o640, access: None, default: None });
        let dir = inherit(&minimal, 0o777, true).unwrap();
        assert_eq!(dir, Inherited { mode: 0o750, access: None, default: Some(minimal) });
    }

    #[test]
    fn inherited_mode_and_acl_always_agree() {
        let default = acl("u::rw-,u:1:rwx,g::r-x,g:2:--x,m::-wx,o::r--");
        for mode in 0..0o10000 {
            let (access, new_mode) = default.create_masq(mode);
            assert_eq!(access.equivalent_mode().0, new_mode & RWX_ALL);
            assert_eq!(new_mode & !mode, 0, "{mode:o} became {new_mode:o}");
            assert_eq!(new_mode & !RWX_ALL, mode & !RWX_ALL);
        }
    }
}
