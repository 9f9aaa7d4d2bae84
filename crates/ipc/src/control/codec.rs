//! Messages as bytes: a number that says which message it is, then its fields in their order, all little-endian. A packet
//! has exactly the size that its message needs.

use core::fmt;

/// Bytes of the longest message.
pub const MAX_PACKET: usize = 192;

/// A message that crosses a socket pair.
pub trait Message: Copy {
    /// The message as bytes.
    fn encode(&self) -> Packet;

    /// Reads a message back.
    fn decode(bytes: &[u8]) -> Result<Self, Malformed>;
}

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// They are fewer than the message has.
    TooShort,
    /// They are more than the message has.
    TooLong,
    /// In this direction there is no message of that number.
    Unknown(u32),
    /// A field has a value that it cannot have.
    Value,
}

impl fmt::Display for Malformed {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Malformed::TooShort => to.write_str("it is too short"),
            Malformed::TooLong => to.write_str("it is too long"),
            Malformed::Unknown(kind) => write!(to, "message number {kind:#x} is unknown"),
            Malformed::Value => to.write_str("one of its fields has a value that it cannot have"),
        }
    }
}

/// An encoded message.
pub struct Packet {
    bytes: [u8; MAX_PACKET],
    size: usize,
}

impl Packet {
    /// A packet with the number of a message.
    pub(super) fn of(kind: u32) -> Packet {
        let mut packet = Packet { bytes: [0; MAX_PACKET], size: 0 };
        kind.put(&mut packet);
        packet
    }

    /// What is to be sent.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.size.min(MAX_PACKET)]
    }

    /// All messages fit: a test encodes each.
    fn add(&mut self, bytes: &[u8]) {
        let end = self.size + bytes.len();
        if let Some(room) = self.bytes.get_mut(self.size..end) {
            room.copy_from_slice(bytes);
        }
        debug_assert!(end <= MAX_PACKET);
        self.size = end;
    }
}

/// The rest of a packet that is being read.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl Reader<'_> {
    fn take<const SIZE: usize>(&mut self) -> Result<[u8; SIZE], Malformed> {
        let (first, rest) = self.0.split_first_chunk().ok_or(Malformed::TooShort)?;
        self.0 = rest;
        Ok(*first)
    }

    /// Nothing may be left.
    pub(super) fn end(&self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed::TooLong) }
    }
}

/// A field of a message.
pub(super) trait Field: Sized {
    fn put(&self, packet: &mut Packet);
    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed>;
}

macro_rules! number_fields {
    ($($number:ty)*) => {
        $(impl Field for $number {
            fn put(&self, packet: &mut Packet) {
                packet.add(&self.to_le_bytes());
            }
            fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
                Ok(<$number>::from_le_bytes(from.take()?))
            }
        })*
    };
}

number_fields!(u8 u32 i32 u64);

impl Field for bool {
    fn put(&self, packet: &mut Packet) {
        u8::from(*self).put(packet);
    }
    fn take(from: &mut Reader<'_>) -> Result<bool, Malformed> {
        match u8::take(from)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed::Value),
        }
    }
}

impl<const SIZE: usize> Field for [u8; SIZE] {
    fn put(&self, packet: &mut Packet) {
        packet.add(self);
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        from.take()
    }
}

/// A structure as a field: its own fields in the order that is given.
macro_rules! structure_field {
    ($structure:ident { $($field:ident),* }) => {
        impl $crate::control::codec::Field for $structure {
            fn put(&self, packet: &mut $crate::control::codec::Packet) {
                $($crate::control::codec::Field::put(&self.$field, packet);)*
            }
            fn take(
                from: &mut $crate::control::codec::Reader<'_>,
            ) -> Result<Self, $crate::control::codec::Malformed> {
                Ok($structure { $($field: $crate::control::codec::Field::take(from)?),* })
            }
        }
    };
}

/// The encoder and the decoder of a direction. A message or a field that is left out does not compile.
macro_rules! messages {
    ($direction:ident { $($kind:literal => $variant:ident { $($field:ident),* })* }) => {
        impl $crate::control::codec::Message for $direction {
            fn encode(&self) -> $crate::control::codec::Packet {
                match self {
                    $(Self::$variant { $($field),* } => {
                        #[allow(unused_mut)]
                        let mut packet = $crate::control::codec::Packet::of($kind);
                        $($crate::control::codec::Field::put($field, &mut packet);)*
                        packet
                    })*
                }
            }

            fn decode(bytes: &[u8]) -> Result<Self, $crate::control::codec::Malformed> {
                let mut from = $crate::control::codec::Reader(bytes);
                let message = match <u32 as $crate::control::codec::Field>::take(&mut from)? {
                    $($kind => Self::$variant { $($field: $crate::control::codec::Field::take(&mut from)?),* },)*
                    unknown => return Err($crate::control::codec::Malformed::Unknown(unknown)),
                };
                from.end()?;
                Ok(message)
            }
        }

        #[cfg(test)]
        impl $direction {
            pub(super) const KINDS: &[u32] = &[$($kind),*];
        }
    };
}

pub(super) use {messages, structure_field};
