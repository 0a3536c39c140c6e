"""Writes what trafilatura makes of each page in two directories, as JSON by name.

Usage: compare.py DIRECTORY…
"""

import json
import pathlib
import sys

import trafilatura

results = {}
for directory in sys.argv[1:]:
    for file in sorted(pathlib.Path(directory).glob("*.html")):
        page = file.read_text(encoding="utf-8")
        text = trafilatura.extract(
            page,
            url="https://site.example/section/page.html",
            output_format="markdown",
            include_tables=True,
            include_links=True,
            include_formatting=True,
            include_images=True,
            include_comments=True,
        )
        text = text or ""
        metadata = trafilatura.extract_metadata(page)
        title = metadata.title.rstrip("¶# ") if metadata and metadata.title else None
        # A title that the text does not have is one of its answers, too.
        if title and f"# {title}" not in text and f"# [{title}" not in text:
            text = f"# {title}\n\n{text}"
        results[file.stem] = text
json.dump(results, sys.stdout)
