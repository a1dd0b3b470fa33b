"""What people look at: one page, figures, text. All of them are made from a `View`."""

from raytree.report.build import Source, view_of
from raytree.report.page import page_of, write_page
from raytree.report.view import View

__all__ = ["Source", "View", "page_of", "view_of", "write_page"]
