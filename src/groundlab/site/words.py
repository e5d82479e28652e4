"""The words of the search: "on-change" and "Fig. 4" are one word each, and "change" finds "on-change", too."""

import re

from sphinx.search.en import SearchEnglish

_NUMBERED = r"\b(fig|table|section|eq)\w*\.?\s+(\d+\w*)"
_WORD = r"\w+(?:-\w+)*"


class Words(SearchEnglish):
    """English with compounds. The script splits what is asked for as `split` splits the pages."""

    js_splitter_code = f"""
var splitQuery = (query) =>
  query.toLowerCase().replace(/{_NUMBERED}/g, "$1$2").match(/{_WORD}/g) || [];
"""

    def split(self, input: str) -> list[str]:
        """The words of a text: compounds, and their parts."""
        compounds = re.findall(_WORD, re.sub(_NUMBERED, r"\1\2", input.lower()))
        numbered = [part for pair in re.findall(_NUMBERED, input.lower()) for part in pair]
        return [*compounds, *numbered, *(part for each in compounds if "-" in each for part in each.split("-"))]
