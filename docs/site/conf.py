"""Sphinx's settings, and the list of the book's pages. Build with: scripts/docs.sh"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # for book.py

# Every page, by part, in reading order. A page lies under the one before it whose folder holds it:
# the exercises under their chapter. README.md comes before them all.
book_parts = {
    "Begin": [
        "docs/prologue/README.md",
        "docs/glossary.md",
    ],
    "The ladder": [
        "stages/01_naive/README.md",
        "stages/01_naive/exercises/README.md",
        "stages/01_naive/exercises/1_mask.md",
        "stages/01_naive/exercises/2_softmax.md",
        "stages/01_naive/exercises/3_output.md",
        "stages/01_naive/exercises/4_score_gradients_bwd.md",
        "stages/02_tiled/README.md",
        "stages/02_tiled/exercises/README.md",
        "stages/02_tiled/exercises/1_tile_load.md",
        "stages/02_tiled/exercises/2_race.md",
        "stages/02_tiled/exercises/3_bank_conflicts.md",
        "stages/02_tiled/exercises/4_bytes.md",
        "stages/02_tiled/exercises/5_probabilities.md",
        "stages/03_online_softmax/README.md",
        "stages/03_online_softmax/exercises/README.md",
        "stages/03_online_softmax/exercises/1_rescaling.md",
        "stages/03_online_softmax/exercises/2_mask_and_tail.md",
        "stages/03_online_softmax/exercises/3_last_step.md",
        "stages/03_online_softmax/exercises/4_tiles.md",
        "stages/03_online_softmax/exercises/5_barriers.md",
        "stages/03_online_softmax/exercises/6_query_gradient_bwd.md",
        "stages/04_register_tiles/README.md",
        "stages/04_register_tiles/exercises/README.md",
        "stages/04_register_tiles/exercises/1_micro_tile.md",
        "stages/04_register_tiles/exercises/2_lanes_of_a_row.md",
        "stages/04_register_tiles/exercises/3_pitch.md",
        "stages/04_register_tiles/exercises/4_one_buffer_bwd.md",
        "stages/05_wmma/README.md",
        "stages/05_wmma/exercises/README.md",
        "stages/05_wmma/exercises/1_layouts.md",
        "stages/05_wmma/exercises/2_row_factors.md",
        "stages/05_wmma/exercises/3_barriers.md",
        "stages/06_forward_backward/README.md",
        "stages/06_forward_backward/exercises/README.md",
        "stages/06_forward_backward/exercises/1_query_gradient_bwd.md",
        "stages/06_forward_backward/exercises/2_transposed_scores_bwd.md",
        "stages/06_forward_backward/exercises/3_products_bwd.md",
        "stages/07_mma_registers/README.md",
        "stages/07_mma_registers/exercises/README.md",
        "stages/07_mma_registers/exercises/1_loads.md",
        "stages/07_mma_registers/exercises/2_rows_of_a_quad.md",
        "stages/07_mma_registers/exercises/3_in_place.md",
        "stages/08_swizzle/README.md",
        "stages/08_swizzle/exercises/README.md",
        "stages/08_swizzle/exercises/1_layout.md",
        "stages/08_swizzle/exercises/2_chunks.md",
        "stages/08_swizzle/exercises/3_two_buffers.md",
        "stages/09_async_copy/README.md",
        "stages/09_async_copy/NOTEBOOK.md",
        "stages/09_async_copy/exercises/README.md",
        "stages/09_async_copy/exercises/1_one_wait.md",
        "stages/09_async_copy/exercises/2_inner_tiles.md",
        "stages/09_async_copy/exercises/3_operand_bwd.md",
        "stages/10_tma/README.md",
        "stages/10_tma/NOTEBOOK.md",
        "stages/10_tma/exercises/README.md",
        "stages/10_tma/exercises/1_request.md",
        "stages/10_tma/exercises/2_slots.md",
        "stages/10_tma/exercises/3_full_and_empty.md",
        "stages/11_wgmma/README.md",
        "stages/12_warp_specialized/README.md",
        "stages/12_warp_specialized/NOTEBOOK.md",
        "stages/13_ping_pong/README.md",
        "stages/13_ping_pong/NOTEBOOK.md",
        "stages/14_persistent/README.md",
        "stages/14_persistent/NOTEBOOK.md",
        "stages/15_wgmma_backward/README.md",
        "stages/15_wgmma_backward/NOTEBOOK.md",
        "stages/16_overlapped_backward/README.md",
        "stages/16_overlapped_backward/NOTEBOOK.md",
    ],
    "Around it": [
        "docs/how_to_change_it.md",
        "docs/hunting_races.md",
        "docs/player/README.md",
        "docs/beside_pytorch.md",
        "docs/ceilings.md",
        "docs/f32_gradients.md",
        "docs/papers.md",
        "docs/related_work.md",
        "docs/syllabus.md",
    ],
    "Use it": [
        "python/README.md",
        "examples/README.md",
        "examples/data/README.md",
    ],
    "Look inside": [
        "docs/architecture.md",
        "common/simt/README.md",
        "common/simt/KNOWLEDGE.md",
        "docs/counts_and_chip.md",
        "bench/data/README.md",
    ],
    "Contribute": [
        "CONTRIBUTING.md",
        "CHANGELOG.md",
    ],
}

project = "CuFlash Ladder"
extensions = ["myst_parser", "book"]
source_suffix = {".md": "markdown"}
root_doc = "index"

# Markdown as code hosts read it: `$…$`, ```math, links to headings.
myst_enable_extensions = ["dollarmath"]
myst_dmath_allow_labels = False
myst_dmath_double_inline = True
myst_heading_anchors = 4
myst_update_mathjax = False
html_math_renderer = "katex"

html_theme = "furo"
html_title = project
html_theme_options = {
    "light_css_variables": {"color-code-background": "#f6f8fa"},
    "dark_css_variables": {"color-code-background": "#1c2025"},
}
html_static_path = ["static"]
html_css_files = ["katex/katex.min.css", "book.css"]
html_js_files = [("katex/katex.min.js", {"defer": "defer"}), ("formulas.js", {"defer": "defer"})]
templates_path = ["templates"]
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "api_link.html",
        "sidebar/scroll-end.html",
    ]
}
html_copy_source = False
html_use_index = False
html_show_copyright = False
html_show_search_summary = False  # A page opened from a file may not read another.
pygments_style = "xcode"
pygments_dark_style = "github-dark"
highlight_language = "none"
