//! The model's tree, described as a volume's is.

use std::collections::BTreeMap;

use super::{Inode, Model, Node};
use crate::op::Special;
use crate::tree::{Description, Tree};

impl Model {
    /// The tree as [`tree_of`](crate::tree::tree_of) describes a volume's.
    /// `times`: with modification times.
    pub fn tree(&self, times: bool) -> Tree {
        let mut tree = Tree::new();
        describe_dir(self, "", 0, &self.root, times, &mut tree);
        tree
    }
}

fn describe_dir(
    model: &Model,
    path: &str,
    id: usize,
    entries: &BTreeMap<String, Node>,
    times: bool,
    tree: &mut Tree,
) {
    let subdirs = entries.values().filter(|node| matches!(node, Node::Dir(..))).count() as u32;
    tree.insert(path.to_owned(), describe_inode("dir", &model.inodes[id], &[], 2 + subdirs, times));
    for (name, node) in entries {
        let path = format!("{path}/{name}");
        let id = node.id();
        let inode = &model.inodes[id];
        let text = match node {
            Node::Dir(id, entries) => {
                describe_dir(model, &path, *id, entries, times, tree);
                continue;
            }
            Node::File(_) => describe_inode("file", inode, &inode.data, model.links(id), times),
            Node::Link(_) => describe_inode("link", inode, &inode.data, model.links(id), times),
            Node::Fifo(_) => describe_inode("fifo", inode, &[], model.links(id), times),
            Node::Special(_, special) => {
                let kind = match special {
                    Special::Block => "block",
                    Special::Char => "char",
                    Special::Socket => "socket",
                };
                describe_special(kind, inode, model.links(id), special.rdev(), times)
            }
            Node::Whiteout(_) => describe_inode("char", inode, &[], model.links(id), times),
        };
        tree.insert(path, text);
    }
}

fn describe_inode(kind: &str, inode: &Inode, contents: &[u8], links: u32, times: bool) -> String {
    description(kind, inode, contents, links, times).text()
}

fn describe_special(kind: &str, inode: &Inode, links: u32, rdev: u32, times: bool) -> String {
    Description { rdev, ..description(kind, inode, &[], links, times) }.text()
}

fn description<'a>(
    kind: &'a str,
    inode: &Inode,
    contents: &'a [u8],
    links: u32,
    times: bool,
) -> Description<'a> {
    let mut xattrs = inode.xattrs.clone();
    xattrs.extend(
        inode.access.map(|acl| ("system.posix_acl_access".to_owned(), acl.encode(inode.mode))),
    );
    xattrs.extend(
        inode.default.map(|(acl, bits)| ("system.posix_acl_default".to_owned(), acl.encode(bits))),
    );
    let mtime = inode.mtime.filter(|_| times);
    let Inode { mode, owner, group, .. } = *inode;
    Description { kind, contents, mode, links, owner, group, rdev: 0, mtime, xattrs }
}
