//! Reads HTML and SVG that we made: tags, attributes and text, whether they nest, and whether all
//! of the text is escaped.

/// One start tag.
pub(crate) struct Tag {
    pub(crate) name: String,
    /// Names with values, entities resolved.
    pub(crate) attributes: Vec<(String, String)>,
    /// The text inside, without tags, white space joined.
    pub(crate) text: String,
}

impl Tag {
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|(other, _)| other == name);
        found.map(|(_, value)| value.as_str())
    }

    pub(crate) fn has_class(&self, class: &str) -> bool {
        self.get("class").is_some_and(|classes| classes.split(' ').any(|other| other == class))
    }
}

/// All tags of `page`, in order. Fails the test if they do not nest.
pub(crate) fn tags(page: &str) -> Vec<Tag> {
    let mut found: Vec<Tag> = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    let mut rest = page;
    while let Some((text, after)) = rest.split_once('<') {
        add_text(&mut found, &open, text);
        let (inside, after) = after.split_once('>').unwrap();
        rest = after;
        if inside.starts_with(['!', '?']) {
            continue;
        }
        if let Some(name) = inside.strip_prefix('/') {
            let index = open.pop().unwrap();
            assert_eq!(found[index].name, name, "ends what did not begin");
            continue;
        }
        let tag = tag(inside);
        let raw = matches!(tag.name.as_str(), "style" | "script");
        let void = matches!(tag.name.as_str(), "meta" | "link" | "br");
        if raw {
            rest = rest.split_once(&format!("</{}>", tag.name)).unwrap().1;
        }
        found.push(tag);
        if !void && !raw {
            open.push(found.len() - 1);
        }
    }
    assert!(open.is_empty(), "{} not ended", found[open[0]].name);
    found
}

fn add_text(found: &mut [Tag], open: &[usize], text: &str) {
    let words: Vec<&str> = text.split_whitespace().collect();
    for &index in open {
        let whole = &mut found[index].text;
        if text.starts_with(char::is_whitespace) && !whole.ends_with(' ') {
            whole.push(' ');
        }
        whole.push_str(&resolve(&words.join(" ")));
        if text.ends_with(char::is_whitespace) && !whole.ends_with(' ') {
            whole.push(' ');
        }
    }
}

fn tag(inside: &str) -> Tag {
    let (name, mut rest) = inside.split_once(' ').unwrap_or((inside, ""));
    let mut attributes = Vec::new();
    while !rest.trim().is_empty() {
        rest = rest.trim_start();
        let end = rest.find(['=', ' ']).unwrap_or(rest.len());
        let (key, after) = rest.split_at(end);
        match after.strip_prefix("=\"") {
            Some(after) => {
                let (value, after) = after.split_once('"').unwrap();
                attributes.push((key.to_owned(), resolve(value)));
                rest = after;
            }
            None => {
                attributes.push((key.to_owned(), String::new()));
                rest = after;
            }
        }
    }
    Tag { name: name.to_owned(), attributes, text: String::new() }
}

fn resolve(text: &str) -> String {
    assert!(!text.contains('>'), "> in {text}");
    for after in text.split('&').skip(1) {
        let entity = after.split_once(';').map(|(name, _)| name);
        assert!(matches!(entity, Some("amp" | "lt" | "gt" | "quot")), "& in {text}");
    }
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"");
    text.replace("&amp;", "&")
}
