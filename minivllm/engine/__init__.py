"""The engine: text in, text out, and the loop between.

Reading order: `llm_engine.py`, `input_processor.py`, `core.py`, `output_processor.py`,
`completion_state.py`, `text_builder.py`, `detokenizer.py`, `stop_strings.py`, `logprobs.py`.
"""
