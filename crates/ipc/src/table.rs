//! Tables that several programs and the documentation share: one row holds a variant, its word and its text.

/// Makes an enum of a table. A row is `Variant = number, "word": "text";`, without the number one more than the row before. The
/// text is the variant's documentation here, and a line of a table in docs/.
///
/// A table of further columns names a struct, `pub enum Name: u32 as Row`; each row then ends with the fields of one,
/// `Variant, "word": "text", { field: value };`. A row without one of them does not compile.
#[macro_export]
macro_rules! table {
    (
        $(#[$about:meta])*
        pub enum $name:ident: $number:ident {
            $($variant:ident $(= $value:literal)?, $word:literal: $text:literal;)*
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr($number)]
        pub enum $name {
            $(#[doc = $text] $variant $(= $value)?,)*
        }

        impl $name {
            /// All of them, in the order of the table.
            pub const ALL: [$name; [$($word),*].len()] = [$($name::$variant),*];

            /// Its word in logs, metrics, headers and documentation.
            pub const fn word(self) -> &'static str {
                match self {
                    $($name::$variant => $word,)*
                }
            }

            /// What it means, for documentation.
            pub const fn text(self) -> &'static str {
                match self {
                    $($name::$variant => $text,)*
                }
            }

            /// Its name in code, for the header that C includes.
            pub const fn name(self) -> &'static str {
                match self {
                    $($name::$variant => stringify!($variant),)*
                }
            }

            /// The one with this number, if there is one.
            pub fn of(number: u32) -> Option<$name> {
                $name::ALL.into_iter().find(|one| *one as u32 == number)
            }
        }
    };
    (
        $(#[$about:meta])*
        pub enum $name:ident: $number:ident as $row:ident {
            $($variant:ident $(= $value:literal)?, $word:literal: $text:literal, { $($field:ident: $cell:expr),* };)*
        }
    ) => {
        $crate::table! {
            $(#[$about])*
            pub enum $name: $number {
                $($variant $(= $value)?, $word: $text;)*
            }
        }

        impl $name {
            /// The other columns of its row.
            pub const fn row(self) -> $row {
                match self {
                    $($name::$variant => $row { $($field: $cell),* },)*
                }
            }
        }
    };
}
