//! What a page draws: its signs, each with its place, and how many pictures.
//!
//! Only what text needs is followed. What a person does not see is left out and counted: signs outside
//! the page, too small to read, transparent, white on white, or drawn to be searched on a page that
//! shows no picture of them.

use std::{collections::BTreeMap, rc::Rc};

use super::{
    file::PdfFile,
    filters,
    font::Font,
    lexer::{Item, Lexer},
    matrix::Matrix,
    object::{Dictionary, Object},
    pages::PageEntry,
    paint::{PageArea, Paint},
    signs::{PageSigns, PlacedSign},
};

/// The most states that are put aside.
const MAX_STATES: usize = 128;

/// How deep drawings may be in drawings.
const MAX_DRAWINGS: usize = 10;

/// The most things before a word that uses them.
const MAX_OPERANDS: usize = 512;

/// The most bytes that a page draws from.
const MAX_CONTENT: usize = 24 * 1024 * 1024;

/// The most that is kept of fonts.
const MAX_FONT_WEIGHT: usize = 1_000_000;

/// How many steps a sign takes, with its place in the order of reading.
const SIGN_STEPS: usize = 24;

/// How many steps a drawing takes before anything is drawn.
const DRAWING_STEPS: usize = 400;

/// The size below which nobody reads.
const TINY: f64 = 2.0;

/// The fonts of a file that were read.
#[derive(Default)]
pub(super) struct FontShelf {
    fonts: BTreeMap<u32, Rc<Font>>,
    weight: usize,
}

/// What is in force while a page is drawn.
#[derive(Clone)]
struct GraphicsState {
    place: Matrix,
    font: Option<Rc<Font>>,
    size: f64,
    sign_gap: f64,
    word_gap: f64,
    stretch: f64,
    leading: f64,
    rise: f64,
    mode: i64,
    paint: Paint,
}

/// Follows what pages draw.
pub(super) struct ContentReader<'r, 'a> {
    file: &'r mut PdfFile<'a>,
    shelf: &'r mut FontShelf,
    signs: PageSigns,
    state: GraphicsState,
    states: Vec<GraphicsState>,
    ignored_states: usize,
    text: Matrix,
    line: Matrix,
    path: Option<PageArea>,
    /// Fonts of the resources in force, by their names.
    fonts: BTreeMap<Vec<u8>, Option<Rc<Font>>>,
    drawings: usize,
}

/// Reads what a page draws.
pub(super) fn read(file: &mut PdfFile<'_>, shelf: &mut FontShelf, page: &PageEntry) -> PageSigns {
    let resources = page.resources.clone().unwrap_or(Object::Null);
    let resources = file.resolve(&resources);
    let area = page.area.clone().map(|area| file.resolve(&area));
    let area = area.as_deref().and_then(Object::array);
    let area = area
        .and_then(PageArea::of)
        .filter(|area| area.width() > 1.0);
    let content = content_of(file, page);
    let mut reader = ContentReader {
        file,
        shelf,
        signs: PageSigns::new(area),
        state: GraphicsState {
            place: Matrix::IDENTITY,
            font: None,
            size: 0.0,
            sign_gap: 0.0,
            word_gap: 0.0,
            stretch: 1.0,
            leading: 0.0,
            rise: 0.0,
            mode: 0,
            paint: Paint::default(),
        },
        states: Vec::new(),
        ignored_states: 0,
        text: Matrix::IDENTITY,
        line: Matrix::IDENTITY,
        path: None,
        fonts: BTreeMap::new(),
        drawings: 0,
    };
    let resources = resources.dictionary().cloned().unwrap_or_default();
    reader.run(&content, &resources);
    reader.signs
}

/// The bytes that a page draws from: one stream, or several as if they were one.
fn content_of(file: &mut PdfFile<'_>, page: &PageEntry) -> Vec<u8> {
    let Some(dictionary) = page.dictionary.dictionary() else {
        return Vec::new();
    };
    let content = file.get(dictionary, b"Contents");
    if let Some(stream) = content.stream() {
        return filters::unpacked(file, stream);
    }
    let mut whole = Vec::new();
    for part in content.array().unwrap_or_default() {
        let part = file.resolve(part);
        if let Some(stream) = part.stream() {
            whole.extend_from_slice(&filters::unpacked(file, stream));
            whole.push(b'\n');
        }
        if whole.len() > MAX_CONTENT || file.budget.is_spent() {
            break;
        }
    }
    whole
}

impl ContentReader<'_, '_> {
    fn run(&mut self, content: &[u8], resources: &Dictionary) {
        let budget = self.file.budget;
        let mut lexer = Lexer::of_content(content, budget);
        let mut operands: Vec<Object> = Vec::new();
        loop {
            match lexer.item() {
                Item::End => return,
                Item::Object(object) if operands.len() < MAX_OPERANDS => operands.push(object),
                Item::Object(_) => {}
                Item::Keyword(b"BI") => {
                    while !matches!(lexer.item(), Item::Keyword(b"ID") | Item::End) {}
                    lexer.skip_picture();
                    self.picture();
                    operands.clear();
                }
                Item::Keyword(word) => {
                    self.operator(word, &operands, resources);
                    operands.clear();
                }
            }
            if budget.is_spent() {
                return;
            }
            // The limit on the parts of one object is not one on all that is drawn.
            lexer.parts = 0;
        }
    }

    fn operator(&mut self, word: &[u8], operands: &[Object], resources: &Dictionary) {
        match word {
            b"q" | b"Q" | b"cm" | b"gs" | b"Do" => self.graphics(word, operands, resources),
            b"BT" => {
                self.text = Matrix::IDENTITY;
                self.line = Matrix::IDENTITY;
            }
            b"Tf" | b"Tc" | b"Tw" | b"Tz" | b"TL" | b"Ts" | b"Tr" => {
                self.text_state(word, operands, resources);
            }
            b"Td" | b"TD" | b"Tm" | b"T*" => self.text_place(word, operands),
            b"Tj" | b"TJ" | b"'" | b"\"" => self.text_shown(word, operands),
            b"m" | b"l" | b"c" | b"v" | b"y" | b"re" => self.path_part(word, operands),
            b"f" | b"F" | b"f*" | b"B" | b"B*" | b"b" | b"b*" => {
                if let (Some(path), false) = (self.path.take(), self.state.paint.is_invisible()) {
                    self.signs.ground.add(path);
                }
            }
            b"sh" => self.signs.ground.add_everything(),
            b"n" | b"S" | b"s" => self.path = None,
            _ => self.state.paint.operator(word, operands),
        }
    }

    fn graphics(&mut self, word: &[u8], operands: &[Object], resources: &Dictionary) {
        match word {
            b"q" if self.states.len() < MAX_STATES => self.states.push(self.state.clone()),
            b"q" => self.ignored_states = self.ignored_states.saturating_add(1),
            b"Q" if self.ignored_states > 0 => self.ignored_states -= 1,
            b"Q" => {
                if let Some(state) = self.states.pop() {
                    self.state = state;
                }
            }
            b"cm" => {
                if let Some(matrix) = Matrix::of(operands) {
                    self.state.place = matrix.then(self.state.place);
                }
            }
            b"gs" => {
                let states = self.file.get_dictionary(resources, b"ExtGState");
                let name = operands.first().and_then(Object::name).unwrap_or_default();
                let state = self.file.get_dictionary(&states, name);
                if let Some(alpha) = self.file.get(&state, b"ca").number() {
                    self.state.paint.alpha = alpha;
                }
            }
            _ => {
                let name = operands.first().and_then(Object::name).unwrap_or_default();
                self.drawing(name, resources);
            }
        }
    }

    /// Draws what has a name: a picture, or a drawing with its own content.
    fn drawing(&mut self, name: &[u8], resources: &Dictionary) {
        let drawings = self.file.get_dictionary(resources, b"XObject");
        let drawing = self.file.get(&drawings, name);
        let Some(stream) = drawing.stream() else {
            return;
        };
        let dictionary = &stream.dictionary;
        if self.file.get(dictionary, b"Subtype").name() != Some(b"Form") {
            self.picture();
            return;
        }
        if self.drawings >= MAX_DRAWINGS || !self.file.budget.spend(DRAWING_STEPS) {
            return;
        }
        let matrix = self.file.get(dictionary, b"Matrix");
        let matrix = matrix.array().and_then(Matrix::of);
        let own = self.file.get(dictionary, b"Resources");
        let own = own.dictionary().cloned();
        let content = filters::unpacked(self.file, stream);
        let state = self.state.clone();
        let (text, line) = (self.text, self.line);
        let (states, fonts) = (
            std::mem::take(&mut self.states),
            std::mem::take(&mut self.fonts),
        );
        self.state.place = matrix.unwrap_or(Matrix::IDENTITY).then(state.place);
        self.drawings += 1;
        self.run(&content, own.as_ref().unwrap_or(resources));
        self.drawings -= 1;
        (self.state, self.text, self.line) = (state, text, line);
        (self.states, self.fonts) = (states, fonts);
    }

    fn picture(&mut self) {
        self.signs.pictures += 1;
        let corners = [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (1.0, 1.0)];
        let corners = corners.map(|(x, y)| self.state.place.apply(x, y));
        if let (Some(area), false) = (
            PageArea::around(&corners),
            self.state.paint.is_transparent(),
        ) {
            self.signs.ground.add(area);
        }
    }

    fn path_part(&mut self, word: &[u8], operands: &[Object]) {
        let numbers: Vec<f64> = operands.iter().filter_map(Object::number).collect();
        let mut points: Vec<(f64, f64)> = Vec::new();
        if let (b"re", [x, y, width, height]) = (word, &numbers[..]) {
            points.extend([
                (*x, *y),
                (x + width, *y),
                (*x, y + height),
                (x + width, y + height),
            ]);
        } else {
            points.extend(numbers.chunks_exact(2).filter_map(|pair| {
                let [x, y] = pair else { return None };
                Some((*x, *y))
            }));
        }
        for point in &mut points {
            *point = self.state.place.apply(point.0, point.1);
        }
        points.extend(self.path.iter().flat_map(PageArea::corners));
        self.path = PageArea::around(&points);
    }

    fn text_state(&mut self, word: &[u8], operands: &[Object], resources: &Dictionary) {
        let number = operands.last().and_then(Object::number);
        let state = &mut self.state;
        match (word, number) {
            (b"Tf", Some(size)) => {
                state.size = size;
                if let Some(Object::Name(name)) = operands.first() {
                    self.state.font = self.font(name, resources);
                }
            }
            (b"Tc", Some(gap)) => state.sign_gap = gap,
            (b"Tw", Some(gap)) => state.word_gap = gap,
            (b"Tz", Some(percent)) => state.stretch = percent / 100.0,
            (b"TL", Some(leading)) => state.leading = leading,
            (b"Ts", Some(rise)) => state.rise = rise,
            (b"Tr", Some(_)) => {
                state.mode = operands.last().and_then(Object::integer).unwrap_or(0);
            }
            _ => {}
        }
    }

    fn font(&mut self, name: &[u8], resources: &Dictionary) -> Option<Rc<Font>> {
        if let Some(font) = self.fonts.get(name) {
            return font.clone();
        }
        let fonts = self.file.get(resources, b"Font");
        let font = fonts
            .dictionary()
            .and_then(|fonts| fonts.get(name))
            .cloned();
        let font = font.and_then(|font| self.shelved(&font));
        self.fonts.insert(name.to_vec(), font.clone());
        font
    }

    /// A font, read once for all pages where it has a number.
    fn shelved(&mut self, object: &Object) -> Option<Rc<Font>> {
        let number = if let Object::Reference(number) = object {
            Some(*number)
        } else {
            None
        };
        if let Some(font) = number.and_then(|number| self.shelf.fonts.get(&number)) {
            return Some(Rc::clone(font));
        }
        let object = self.file.resolve(object);
        let font = Rc::new(Font::load(self.file, object.dictionary()?));
        if self.shelf.weight + font.weight() > MAX_FONT_WEIGHT {
            self.shelf.fonts.clear();
            self.shelf.weight = 0;
        }
        if let Some(number) = number {
            self.shelf.weight += font.weight();
            self.shelf.fonts.insert(number, Rc::clone(&font));
        }
        Some(font)
    }

    fn text_place(&mut self, word: &[u8], operands: &[Object]) {
        let numbers: Vec<f64> = operands.iter().filter_map(Object::number).collect();
        match (word, &numbers[..]) {
            (b"Td", [x, y]) => self.next_line(*x, *y),
            (b"TD", [x, y]) => {
                self.state.leading = -y;
                self.next_line(*x, *y);
            }
            (b"Tm", _) => {
                if let Some(matrix) = Matrix::of(operands) {
                    (self.text, self.line) = (matrix, matrix);
                }
            }
            (b"T*", _) => self.next_line(0.0, -self.state.leading),
            _ => {}
        }
    }

    fn next_line(&mut self, x: f64, y: f64) {
        self.line = Matrix::of_move(x, y).then(self.line);
        self.text = self.line;
    }

    fn text_shown(&mut self, word: &[u8], operands: &[Object]) {
        if word == b"\""
            && let [word_gap, sign_gap, _] = operands
        {
            self.state.word_gap = word_gap.number().unwrap_or(0.0);
            self.state.sign_gap = sign_gap.number().unwrap_or(0.0);
        }
        if matches!(word, b"'" | b"\"") {
            self.next_line(0.0, -self.state.leading);
        }
        match operands.last() {
            Some(Object::Text(text)) => self.show(text),
            Some(Object::Array(parts)) => {
                for part in parts.iter() {
                    match part {
                        Object::Text(text) => self.show(text),
                        other => self.kern(other.number().unwrap_or(0.0)),
                    }
                }
            }
            _ => {}
        }
    }

    /// Moves back by thousandths of the size.
    fn kern(&mut self, thousandths: f64) {
        let back = thousandths / 1000.0 * self.state.size;
        let is_vertical = self
            .state
            .font
            .as_ref()
            .is_some_and(|font| font.is_vertical);
        let by = if is_vertical {
            Matrix::of_move(0.0, -back)
        } else {
            Matrix::of_move(-back * self.state.stretch, 0.0)
        };
        self.text = by.then(self.text);
    }

    fn show(&mut self, text: &[u8]) {
        let Some(font) = self.state.font.clone() else {
            self.signs.unknown += text.len();
            return;
        };
        for code in font.codes(text) {
            if self.signs.is_full() || !self.file.budget.spend(SIGN_STEPS) {
                return;
            }
            let size = self.state.size;
            let width = font.width(code) * size;
            let start = self.signs.text.len();
            let is_known = font.push_text(code, &mut self.signs.text);
            self.place(&font, width, start, is_known);
            let is_blank = code.bytes == b" ";
            let gap = self.state.sign_gap + if is_blank { self.state.word_gap } else { 0.0 };
            let by = if font.is_vertical {
                Matrix::of_move(0.0, -(size + gap))
            } else {
                Matrix::of_move((width + gap) * self.state.stretch, 0.0)
            };
            self.text = by.then(self.text);
        }
    }

    /// Adds the sign whose text begins at `start`, if anybody sees it.
    fn place(&mut self, font: &Font, width: f64, start: usize, is_known: bool) {
        let whole = self.text.then(self.state.place);
        let (x, y) = whole.apply(0.0, self.state.rise);
        let (right_x, right_y) = if font.is_vertical {
            (-whole.c, -whole.d)
        } else {
            (whole.a, whole.b)
        };
        let reach = right_x.hypot(right_y);
        let size = self.state.size.abs() * whole.c.hypot(whole.d) * font.height;
        let width = if font.is_vertical {
            self.state.size.abs() * reach
        } else {
            width.abs() * self.state.stretch.abs() * reach
        };
        let turn = right_y.atan2(right_x)
            + if self.state.size < 0.0 {
                std::f64::consts::PI
            } else {
                0.0
            };
        let sign = PlacedSign {
            x,
            y,
            width,
            size,
            turn,
            start,
            end: self.signs.text.len(),
        };
        if !sign.is_finite() {
            self.signs.text.truncate(start);
            return;
        }
        if !is_known {
            self.signs.unknown += 1;
            self.signs.text.push('\u{fffd}');
        }
        let sign = PlacedSign {
            end: self.signs.text.len(),
            ..sign
        };
        let is_searched_only = matches!(self.state.mode, 3 | 7);
        let is_unseen = size < TINY
            || self.signs.is_outside(&sign)
            || (!is_searched_only
                && (self.state.paint.is_transparent()
                    || (self.state.paint.is_white() && !self.signs.ground.is_under(x, y))));
        if is_unseen {
            self.signs.leave_out(start);
        } else if is_searched_only {
            self.signs.add_searched(sign);
        } else {
            self.signs.add(sign);
        }
    }
}
