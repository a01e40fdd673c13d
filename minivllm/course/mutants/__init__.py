"""The bank of classic mistakes, one file a chapter; see docs/writing_a_chapter.md."""
