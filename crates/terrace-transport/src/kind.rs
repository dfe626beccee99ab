//! The kinds of messages that the kernel sends.

/// Declares the kinds with their names and numbers in the protocol.
macro_rules! kinds {
    ($($kind:ident $name:literal $opcode:literal),* $(,)?) => {
        /// A kind of message, by its name in the FUSE protocol.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Message {
            $(#[doc = $name] $kind),*
        }

        impl Message {
            /// Every kind.
            pub const ALL: &[Message] = &[$(Message::$kind),*];

            /// The name in the FUSE protocol, without its prefix: `LOOKUP`.
            pub fn name(self) -> &'static str {
                match self {
                    $(Message::$kind => $name),*
                }
            }

            /// Its number in the protocol.
            pub fn opcode(self) -> u32 {
                match self {
                    $(Message::$kind => $opcode),*
                }
            }

            /// The kind with this number.
            pub fn from_opcode(opcode: u32) -> Option<Message> {
                match opcode {
                    $($opcode => Some(Message::$kind),)*
                    _ => None,
                }
            }
        }
    };
}

kinds! {
    Lookup "LOOKUP" 1,
    Forget "FORGET" 2,
    Getattr "GETATTR" 3,
    Setattr "SETATTR" 4,
    Readlink "READLINK" 5,
    Symlink "SYMLINK" 6,
    Mknod "MKNOD" 8,
    Mkdir "MKDIR" 9,
    Unlink "UNLINK" 10,
    Rmdir "RMDIR" 11,
    Rename "RENAME" 12,
    Link "LINK" 13,
    Open "OPEN" 14,
    Read "READ" 15,
    Write "WRITE" 16,
    Statfs "STATFS" 17,
    Release "RELEASE" 18,
    Fsync "FSYNC" 20,
    Setxattr "SETXATTR" 21,
    Getxattr "GETXATTR" 22,
    Listxattr "LISTXATTR" 23,
    Removexattr "REMOVEXATTR" 24,
    Flush "FLUSH" 25,
    Init "INIT" 26,
    Opendir "OPENDIR" 27,
    Readdir "READDIR" 28,
    Releasedir "RELEASEDIR" 29,
    Fsyncdir "FSYNCDIR" 30,
    Getlk "GETLK" 31,
    Setlk "SETLK" 32,
    Setlkw "SETLKW" 33,
    Access "ACCESS" 34,
    Create "CREATE" 35,
    Interrupt "INTERRUPT" 36,
    Bmap "BMAP" 37,
    Destroy "DESTROY" 38,
    Ioctl "IOCTL" 39,
    Poll "POLL" 40,
    NotifyReply "NOTIFY_REPLY" 41,
    BatchForget "BATCH_FORGET" 42,
    Fallocate "FALLOCATE" 43,
    Readdirplus "READDIRPLUS" 44,
    Rename2 "RENAME2" 45,
    Lseek "LSEEK" 46,
    CopyFileRange "COPY_FILE_RANGE" 47,
    Setupmapping "SETUPMAPPING" 48,
    Removemapping "REMOVEMAPPING" 49,
    Syncfs "SYNCFS" 50,
    Tmpfile "TMPFILE" 51,
    Statx "STATX" 52,
    CopyFileRange64 "COPY_FILE_RANGE_64" 53,
}

impl Message {
    /// Whether the kernel waits for an answer.
    pub fn is_answered(self) -> bool {
        !matches!(
            self,
            Message::Forget | Message::BatchForget | Message::Interrupt | Message::NotifyReply
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_are_unique() {
        for (at, &message) in Message::ALL.iter().enumerate() {
            assert_eq!(Message::from_opcode(message.opcode()), Some(message));
            assert!(Message::ALL[..at].iter().all(|other| other.name() != message.name()));
        }
        assert_eq!(Message::from_opcode(7), None);
        assert_eq!(Message::from_opcode(4096), None);
    }
}
