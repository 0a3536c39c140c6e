//! PDFs for tests, written object by object: those that readers are made for, and those that are made
//! against readers.

use std::fmt::Write as _;

/// A PDF that is being made. Objects have the numbers in which they are added, from 1.
#[derive(Debug, Clone, Default)]
pub struct PdfMaker {
    objects: Vec<Vec<u8>>,
    /// What stands in the trailer beside its root and size.
    pub trailer: String,
}

impl PdfMaker {
    /// A PDF with these pages. Each draws its content with the fonts of `fonts`, the entries of a
    /// dictionary: `/F1 << … >>`. The root is object 1, the list of pages object 2.
    pub fn with_pages(pages: &[&str], fonts: &str) -> Self {
        let contents: Vec<&[u8]> = pages.iter().map(|page| page.as_bytes()).collect();
        Self::with_page_bytes(&contents, fonts)
    }

    /// The same where pages draw from bytes that are no text.
    pub fn with_page_bytes(pages: &[&[u8]], fonts: &str) -> Self {
        let mut made = Self::default();
        made.add("<< /Type /Catalog /Pages 2 0 R >>");
        let kids = (0..pages.len()).fold(String::new(), |mut kids, index| {
            let _ = write!(kids, "{} 0 R ", 3 + 2 * index);
            kids
        });
        made.add(format!(
            "<< /Type /Pages /Kids [{kids}] /Count {} /MediaBox [0 0 612 792] >>",
            pages.len()
        ));
        for content in pages {
            let stream = made.objects.len() + 2;
            made.add(format!(
                "<< /Type /Page /Parent 2 0 R /Contents {stream} 0 R /Resources << /Font << {fonts} >> >> >>"
            ));
            made.add_stream("", content);
        }
        made
    }

    /// Adds an object and returns its number.
    pub fn add(&mut self, object: impl Into<Vec<u8>>) -> usize {
        self.objects.push(object.into());
        self.objects.len()
    }

    /// Adds a stream with these entries besides its length, and returns its number.
    pub fn add_stream(&mut self, entries: &str, bytes: &[u8]) -> usize {
        let head = format!("<< /Length {} {entries} >>\nstream\n", bytes.len());
        self.add([head.as_bytes(), bytes, b"\nendstream"].concat())
    }

    /// Replaces an object.
    pub fn set(&mut self, number: usize, object: impl Into<Vec<u8>>) {
        self.objects[number - 1] = object.into();
    }

    /// The file, with a table that says where each object is.
    pub fn finish(&self) -> Vec<u8> {
        let (mut file, places) = self.body(|_| true);
        let table = file.len();
        let mut tail = format!("xref\n0 {}\n0000000000 65535 f \n", places.len() + 1);
        for place in &places {
            let _ = writeln!(tail, "{place:010} 00000 n ");
        }
        let _ = write!(
            tail,
            "trailer\n<< /Size {} /Root 1 0 R {} >>\nstartxref\n{table}\n%%EOF\n",
            places.len() + 1,
            self.trailer
        );
        file.extend_from_slice(tail.as_bytes());
        file
    }

    /// The file with all objects that may be in a stream of objects, and a table that is a stream.
    /// `pack` says how streams are packed: the value of `/Filter`, and the bytes.
    pub fn finish_packed(&self, pack: impl Fn(&[u8]) -> (&'static str, Vec<u8>)) -> Vec<u8> {
        let is_stream = |object: &[u8]| object.windows(6).any(|part| part == b"stream");
        let (mut file, places) = self.body(is_stream);
        let (mut heads, mut bodies, mut packed) = (String::new(), Vec::new(), Vec::new());
        for (index, object) in self.objects.iter().enumerate() {
            if !is_stream(object) {
                let _ = write!(heads, "{} {} ", index + 1, bodies.len());
                bodies.extend_from_slice(object);
                bodies.push(b'\n');
                packed.push(index + 1);
            }
        }
        let (stream, table) = (self.objects.len() + 1, self.objects.len() + 2);
        let (filter, bytes) = pack(&[heads.as_bytes(), &bodies].concat());
        let stream_place = file.len();
        let head = format!(
            "{stream} 0 obj\n<< /Type /ObjStm /N {} /First {} {filter} /Length {} >>\nstream\n",
            packed.len(),
            heads.len(),
            bytes.len()
        );
        file.extend([head.as_bytes(), &bytes, b"\nendstream\nendobj\n"].concat());
        let table_place = file.len();
        let mut rows: Vec<[u32; 3]> = vec![[0, 0, 65535]];
        for (index, place) in places.iter().enumerate() {
            let at = packed.iter().position(|number| *number == index + 1);
            rows.push(match at {
                Some(at) => [2, fit(stream), fit(at)],
                None => [1, fit(*place), 0],
            });
        }
        rows.extend([[1, fit(stream_place), 0], [1, fit(table_place), 0]]);
        let mut bytes = Vec::new();
        for [kind, first, second] in rows {
            bytes.push(kind.to_be_bytes()[3]);
            bytes.extend(first.to_be_bytes());
            bytes.extend(&second.to_be_bytes()[2..]);
        }
        let (filter, bytes) = pack(&bytes);
        let head = format!(
            "{table} 0 obj\n<< /Type /XRef /W [1 4 2] /Size {} /Root 1 0 R {filter} /Length {} {} >>\nstream\n",
            table + 1,
            bytes.len(),
            self.trailer
        );
        file.extend([head.as_bytes(), &bytes, b"\nendstream\nendobj\n"].concat());
        file.extend(format!("startxref\n{table_place}\n%%EOF\n").into_bytes());
        file
    }

    /// The objects as they stand in the file, and where each is.
    fn body(&self, is_in: impl Fn(&[u8]) -> bool) -> (Vec<u8>, Vec<usize>) {
        let (mut file, mut places) = (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n".to_vec(), Vec::new());
        for (index, object) in self.objects.iter().enumerate() {
            places.push(file.len());
            if is_in(object) {
                file.extend(format!("{} 0 obj\n", index + 1).into_bytes());
                file.extend_from_slice(object);
                file.extend_from_slice(b"\nendobj\n");
            }
        }
        (file, places)
    }
}

fn fit(number: usize) -> u32 {
    u32::try_from(number).expect("a test's PDF is small")
}

/// The font that every reader has.
pub const HELVETICA: &str =
    "/F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>";

/// What a page draws to show lines below each other from a place on.
pub fn lines(x: i32, y: i32, size: i32, step: i32, lines: &[&str]) -> String {
    let mut content = format!("BT /F1 {size} Tf {step} TL {x} {y} Td\n");
    for line in lines {
        let line = line
            .replace('\\', "\\\\")
            .replace('(', "\\(")
            .replace(')', "\\)");
        let _ = writeln!(content, "({line}) Tj T*");
    }
    content + "ET\n"
}
