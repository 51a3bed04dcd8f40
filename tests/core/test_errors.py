"""Errors: codes, sentences, places."""

from __future__ import annotations

import inspect

import pytest

from schedule_sm.core import errors


def test_every_closed_code_has_one_fixed_sentence() -> None:
    assert tuple(errors.SENTENCES) == errors.ERROR_CODES
    assert len(set(errors.SENTENCES.values())) == len(errors.ERROR_CODES) == 7


def test_every_exception_class_has_the_one_base_and_a_code() -> None:
    classes = [cls for _, cls in inspect.getmembers(errors, inspect.isclass) if issubclass(cls, Exception)]
    assert len(classes) >= 9
    for cls in classes:
        assert issubclass(cls, errors.ScheduleError)
        assert isinstance(cls.code, str)


def test_log_error_names_session_and_event() -> None:
    error = errors.ScheduleLogError("bad", seq=3, session_id="main")
    assert str(error) == "schedule log of session 'main' is corrupt at event 3: bad"
    assert (error.code, error.reason, error.seq, error.session_id) == (
        "corrupt_schedule_log",
        "bad",
        3,
        "main",
    )


def test_located_keeps_class_and_known_places() -> None:
    error = errors.ScheduleVersionError("newer", seq=3).located(seq=9, session_id="main")
    assert type(error) is errors.ScheduleVersionError
    assert (error.seq, error.session_id) == (3, "main")


def test_input_error_carries_its_code_and_the_code_s_sentence() -> None:
    error = errors.ScheduleInputError("invalid_rule", "detail")
    assert error.code == "invalid_rule"
    assert error.message.startswith(errors.SENTENCES["invalid_rule"])
    assert errors.ScheduleInputError.code == "internal_error", "the code belongs to the instance"


def test_illegal_step_names_chart_subject_state_and_event() -> None:
    error = errors.IllegalStepError("DeliveryChart", "schedule-1", "armed", "enqueued")
    assert str(error) == "DeliveryChart of 'schedule-1' has no edge for 'enqueued' in state 'armed'"


@pytest.mark.parametrize("sentence", errors.SENTENCES.values(), ids=errors.SENTENCES)
def test_sentences_say_what_to_do_next(sentence: str) -> None:
    assert sentence.isascii()
    assert sentence.count(". ") >= 1
    assert sentence.endswith(".")
