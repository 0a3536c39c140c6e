//! The elements of a page that are read in a way of their own. All others are blocks without a
//! meaning.

/// An element's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[rustfmt::skip]
pub(crate) enum Tag {
    A, Abbr, Address, Article, Aside, B, Blockquote, Body, Br, Button, Caption, Code, Dd, Del, Details, Div,
    Dl, Dt, Em, Fieldset, Figcaption, Figure, Footer, Form, Head, Header, Heading(u8), Hr, Html, I, Img, Input,
    Kbd, Label, Li, Link, Main, Mark, Meta, Nav, Noscript, Ol, Opt, P, Pre, Q, S, Samp, Script, Section,
    Select, Small, Span, Strong, Style, Sub, Summary, Sup, Svg, Table, Tbody, Td, Template, Textarea, Tfoot,
    Th, Thead, Time, Title, Tr, Tt, Ul, Var, Wbr,
    /// Embedded things: frames, players, drawings.
    Embedded,
    /// Another element without content.
    OtherVoid,
    /// Another element in a line of text.
    OtherInline,
    /// Anything else.
    Other,
}

impl Tag {
    /// The element of this name, in lower case.
    pub(crate) fn of(name: &[u8]) -> Self {
        match name {
            b"a" => Self::A,
            b"abbr" | b"acronym" => Self::Abbr,
            b"address" => Self::Address,
            b"article" => Self::Article,
            b"aside" => Self::Aside,
            b"b" => Self::B,
            b"blockquote" => Self::Blockquote,
            b"body" => Self::Body,
            b"br" => Self::Br,
            b"button" => Self::Button,
            b"caption" => Self::Caption,
            b"code" => Self::Code,
            b"dd" => Self::Dd,
            b"del" => Self::Del,
            b"details" => Self::Details,
            b"div" => Self::Div,
            b"dl" => Self::Dl,
            b"dt" => Self::Dt,
            b"em" => Self::Em,
            b"fieldset" => Self::Fieldset,
            b"figcaption" => Self::Figcaption,
            b"figure" => Self::Figure,
            b"footer" => Self::Footer,
            b"form" => Self::Form,
            b"head" => Self::Head,
            b"header" => Self::Header,
            b"h1" => Self::Heading(1),
            b"h2" => Self::Heading(2),
            b"h3" => Self::Heading(3),
            b"h4" => Self::Heading(4),
            b"h5" => Self::Heading(5),
            b"h6" => Self::Heading(6),
            b"hr" => Self::Hr,
            b"html" => Self::Html,
            b"i" | b"cite" | b"dfn" => Self::I,
            b"img" => Self::Img,
            b"input" => Self::Input,
            b"kbd" => Self::Kbd,
            b"label" => Self::Label,
            b"li" => Self::Li,
            b"link" => Self::Link,
            b"main" => Self::Main,
            b"mark" => Self::Mark,
            b"meta" => Self::Meta,
            b"nav" => Self::Nav,
            b"noscript" => Self::Noscript,
            b"ol" => Self::Ol,
            b"option" | b"optgroup" => Self::Opt,
            b"p" => Self::P,
            b"pre" | b"listing" | b"xmp" => Self::Pre,
            b"q" => Self::Q,
            b"s" | b"strike" => Self::S,
            b"samp" => Self::Samp,
            b"script" => Self::Script,
            b"section" => Self::Section,
            b"select" | b"datalist" => Self::Select,
            b"small" => Self::Small,
            b"span" => Self::Span,
            b"strong" => Self::Strong,
            b"style" => Self::Style,
            b"sub" => Self::Sub,
            b"summary" => Self::Summary,
            b"sup" => Self::Sup,
            b"svg" => Self::Svg,
            b"table" => Self::Table,
            b"tbody" => Self::Tbody,
            b"td" => Self::Td,
            b"template" => Self::Template,
            b"textarea" => Self::Textarea,
            b"tfoot" => Self::Tfoot,
            b"th" => Self::Th,
            b"thead" => Self::Thead,
            b"time" => Self::Time,
            b"title" => Self::Title,
            b"tr" => Self::Tr,
            b"tt" => Self::Tt,
            b"ul" | b"menu" | b"dir" => Self::Ul,
            b"var" => Self::Var,
            b"wbr" => Self::Wbr,
            b"iframe" | b"object" | b"canvas" | b"audio" | b"video" | b"noframes" | b"frameset"
            | b"applet" | b"map" | b"dialog" => Self::Embedded,
            b"area" | b"base" | b"col" | b"embed" | b"frame" | b"param" | b"source" | b"track"
            | b"keygen" | b"basefont" | b"bgsound" => Self::OtherVoid,
            b"bdi" | b"bdo" | b"big" | b"data" | b"font" | b"ins" | b"nobr" | b"output" | b"rb"
            | b"ruby" | b"rt" | b"rp" | b"u" | b"math" | b"mi" | b"mn" | b"mo" | b"mrow"
            | b"msup" | b"msub" => Self::OtherInline,
            _ => Self::Other,
        }
    }

    /// Whether it has no content and no end.
    pub(crate) fn is_void(self) -> bool {
        matches!(
            self,
            Self::Br
                | Self::Hr
                | Self::Img
                | Self::Input
                | Self::Link
                | Self::Meta
                | Self::Wbr
                | Self::OtherVoid
        )
    }

    /// Whether it stands in a line of text.
    pub(crate) fn is_inline(self) -> bool {
        matches!(
            self,
            Self::A
                | Self::Abbr
                | Self::B
                | Self::Br
                | Self::Code
                | Self::Del
                | Self::Em
                | Self::I
                | Self::Img
                | Self::Input
                | Self::Kbd
                | Self::Label
                | Self::Mark
                | Self::Q
                | Self::S
                | Self::Samp
                | Self::Small
                | Self::Span
                | Self::Strong
                | Self::Sub
                | Self::Sup
                | Self::Time
                | Self::Tt
                | Self::Var
                | Self::Wbr
                | Self::OtherInline
        )
    }

    /// Whether nothing in it is text for a reader.
    pub(crate) fn is_silent(self) -> bool {
        matches!(
            self,
            Self::Head
                | Self::Script
                | Self::Style
                | Self::Template
                | Self::Noscript
                | Self::Svg
                | Self::Select
                | Self::Textarea
                | Self::Button
                | Self::Embedded
                | Self::Link
                | Self::Meta
                | Self::Title
                | Self::OtherVoid
        )
    }

    /// Whether a paragraph ends where it begins.
    pub(crate) fn ends_paragraph(self) -> bool {
        !self.is_inline() && !self.is_silent() && self != Self::Other
    }

    /// Whether end tags outside it do not close what is inside it.
    pub(crate) fn is_boundary(self) -> bool {
        matches!(
            self,
            Self::Table | Self::Td | Self::Th | Self::Caption | Self::Html | Self::Template
        )
    }
}
