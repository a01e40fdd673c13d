"""The exercises of each chapter, one file a chapter; see docs/writing_a_chapter.md."""
