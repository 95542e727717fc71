"""Slices, layouts, pictures, histograms and statistics against plain NumPy on the whole array."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opscope.arrays import look, parse_index
from opscope.arrays.picked import Picked, Tolerance, difference
from opscope.arrays.pictures import suggested
from opscope.errors import OpscopeError

WORDS = st.one_of(st.text(":-0123456789, ", max_size=12), st.text(max_size=12))
SHAPES = st.lists(st.integers(0, 7), max_size=4).map(tuple)
NUMBER = st.integers(-9, 9)
PART = st.one_of(
    NUMBER.map(str),
    st.tuples(*(st.one_of(st.just(""), NUMBER.map(str)) for _ in range(2))).map(":".join),
    st.tuples(
        *(st.one_of(st.just(""), NUMBER.map(str)) for _ in range(2)), st.integers(1, 5).map(str)
    ).map(":".join),
)
VALUES = st.one_of(
    st.floats(-1e3, 1e3, width=32), st.sampled_from([0.0, math.nan, math.inf, -math.inf])
)


def array_of(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def number(found: Any) -> float:
    return float(found.replace("Infinity", "inf")) if isinstance(found, str) else float(found)


@given(WORDS, st.lists(st.integers(0, 9), max_size=3))
@settings(max_examples=300, deadline=None)
def test_any_text_is_an_index_as_numpy_has_it_or_refused(text: str, shape: list[int]) -> None:
    array = np.zeros(shape)
    try:
        index = parse_index(text, array.shape)
    except OpscopeError as error:
        assert str(error)
        return
    words = text.split(",") if text.strip() else []
    for found, word in zip(index, words, strict=True):
        parts = [int(part) if part.strip() else None for part in word.split(":")]
        assert found == (parts[0] if len(parts) == 1 else slice(*parts))
    assert array[index].ndim == array.ndim - sum(isinstance(part, int) for part in index)


@given(SHAPES, st.lists(PART, max_size=4), st.integers(0, 5))
@settings(max_examples=300, deadline=None)
def test_every_slice_has_the_elements_that_numpy_gives(
    shape: tuple[int, ...], words: list[str], fold: int
) -> None:
    array, text = array_of(shape), ",".join(words)
    try:
        picked = Picked(array, text, fold)
    except OpscopeError:
        with pytest.raises((IndexError, OpscopeError)):
            _ = array[parse_index(text, array.shape)]
        return
    expected = array[parse_index(text, array.shape)]
    assert picked.rows * picked.columns == expected.size == picked.size
    assert look(array, "slice", {"index": text})["elements"] == expected.reshape(-1).tolist()
    for flat in range(expected.size):
        at = tuple(picked.index_of(flat))
        row, column = divmod(flat, picked.columns)
        window = {"index": text, "fold": fold, "top": row, "left": column, "height": 1, "width": 1}
        (element,) = look(array, "block", window)["elements"]
        assert element == float(array[at]) == float(expected.reshape(-1)[flat])


@given(st.lists(VALUES, min_size=1, max_size=40), st.integers(1, 5), st.integers(1, 5))
@settings(max_examples=150, deadline=None)
def test_cells_of_a_picture(values: list[float], rows: int, columns: int) -> None:
    array = np.array(values * 3, np.float32).reshape(3, -1)
    tile = look(array, "tile", {"rows": rows, "columns": columns})
    down, across = tile["cell"]
    cells = [
        array[top : top + down, left : left + across]
        for top in range(0, 3, down)
        for left in range(0, array.shape[1], across)
    ]
    assert tile["rows"] <= rows and tile["columns"] <= columns and len(cells) == len(tile["low"])
    for place, cell in enumerate(cells):
        finite = cell[np.isfinite(cell)]
        ends = [tile["low"][place], tile["high"][place]]
        if finite.size:
            assert ends == pytest.approx([float(finite.min()), float(finite.max())], rel=1e-6)
        else:
            assert ends == [None, None]
        counts = [tile[name][place] for name in ("nan", "posinf", "neginf")]
        assert counts == [np.isnan(cell).sum(), np.isposinf(cell).sum(), np.isneginf(cell).sum()]


@given(st.lists(VALUES, min_size=1, max_size=40), st.sampled_from([np.float16, np.float32, float]))
@settings(max_examples=150, deadline=None)
def test_statistics_and_places(values: list[float], dtype: Any) -> None:
    array = np.array(values, dtype).reshape(-1, 1)
    found = look(array, "statistics", {})["numbers"]
    wide = array.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    assert found["count"] == array.size and found["nan"] == np.isnan(wide).sum()
    assert (found["posinf"], found["neginf"]) == ((wide == np.inf).sum(), (wide == -np.inf).sum())
    assert found["zero"] == (wide == 0).sum() and found["negative"] == (wide < 0).sum()
    if finite.size:
        assert number(found["mean"]) == pytest.approx(finite.mean(), abs=1e-9)
        assert number(found["std"]) == pytest.approx(finite.std(), abs=1e-9)
        assert number(found["l2"]) == pytest.approx(np.linalg.norm(finite), abs=1e-9)
    places = look(array, "places", {})
    is_nan = np.isnan(wide).reshape(-1)
    assert (places["nan"] is None) == (not is_nan.any())
    if is_nan.any():
        assert places["nan"]["index"] == [int(is_nan.argmax()), 0]
    if not is_nan.all():
        assert places["min"]["index"][0] == int(np.nanargmin(wide))
        assert places["max"]["index"][0] == int(np.nanargmax(wide))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_statistics_along_an_axis(axis: int) -> None:
    array = array_of((6, 5, 4))
    array[2, 3, 1] = np.nan
    found = look(array, "along", {"axis": axis, "index": "1:, ::2", "first": 1, "count": 2})
    taken = np.moveaxis(array[1:, ::2].astype(np.float64), axis, 0)[1:3]
    starts, steps = (1, 0, 0), (1, 2, 1)
    assert found["index"] == [starts[axis] + steps[axis] * (1 + k) for k in range(2)]
    for numbers, slab in zip(found["numbers"], taken, strict=True):
        assert numbers["mean"] == pytest.approx(np.nanmean(slab))
        assert numbers["std"] == pytest.approx(np.nanstd(slab))
        assert numbers["max"] == np.nanmax(slab) and numbers["nan"] == np.isnan(slab).sum()
    with pytest.raises(OpscopeError, match="fixed at 2"):
        look(array, "along", {"axis": axis, "index": "2,2,2"})


@pytest.mark.parametrize("log", [False, True])
def test_histograms(log: bool) -> None:
    array = np.concatenate([array_of((500,)), [0.0, np.nan, np.inf, -np.inf]]).astype(np.float32)
    found = look(array, "histogram", {"bins": 7, "log": log})
    finite = array[np.isfinite(array)].astype(np.float64)
    if log:
        finite = finite[finite != 0]
    scaled = np.log10(np.abs(finite)) if log else finite
    counts, edges = np.histogram(scaled, 7)
    assert found["counts"] == counts.tolist() and found["edges"] == pytest.approx(edges.tolist())
    below = np.histogram(scaled[finite < 0], 7, (edges[0], edges[-1]))[0]
    assert found["negative"] == below.tolist()
    assert [found[n] for n in ("nan", "posinf", "neginf", "zero")] == [1, 1, 1, 1]


def test_a_difference_with_tolerance_tells_how_far_and_where() -> None:
    before = np.array([[1.0, 2.0, np.nan], [np.inf, 5.0, 0.0]])
    now = np.array([[1.1, 2.0, np.nan], [np.inf, np.nan, 1e-9]])
    found = look(now, "compared", {"atol": 1e-6}, before)
    assert (found["differing"], found["beyond"], found["unlike"]) == (3, 2, 1)
    assert found["max_abs"] == pytest.approx(0.1) and found["index"] == [0, 0]
    cells = look(now, "block", {"rtol": 0.2}, before)
    assert cells["elements"] == [0.0, 0.0, 0.0, 0.0, "NaN", 1e-9]
    assert cells["before"][4] == 5.0 and cells["now"][4] == "NaN"
    exact = difference(now, before, Tolerance())
    assert exact[0, 0] == pytest.approx(0.1) and exact[0, 2] == exact[1, 0] == 0
    with pytest.raises(OpscopeError, match="different shapes"):
        look(now, "compared", {}, before[:1])


def test_long_rows_are_folded_and_many_axes_become_a_picture() -> None:
    assert look(np.zeros(10_000), "layout", {})["rows"] == 100
    assert look(np.zeros(100), "layout", {})["rows"] == 1
    assert look(np.zeros(10_007), "layout", {})["columns"] == 10_007, "a prime cannot be folded"
    assert look(np.zeros((32, 3, 5, 5)), "layout", {})["columns"] == 75
    assert look(np.zeros((32, 3, 5, 5)), "layout", {"fold": 1})["columns"] == 5
    found = look(np.arange(20_000), "block", {"index": "::2", "top": 3, "height": 1, "width": 2})
    assert found["elements"][0] == 3 * 2 * look(np.zeros(10_000), "layout", {})["columns"]


def test_huge_integers_and_bools_are_exact() -> None:
    array = np.array([2**60 + 1, -(2**53) - 1, 7])
    assert look(array, "slice", {})["elements"] == [str(2**60 + 1), str(-(2**53) - 1), 7]
    mask = np.array([True, False, True])
    assert look(mask, "statistics", {})["numbers"]["positive"] == 2
    assert look(mask, "tile", {})["high"] == [1.0, 0.0, 1.0]


@pytest.mark.parametrize(
    "part, args",
    [
        ("colour", {}),
        ("tile", {"rows": 10**6, "columns": 10**6}),
        ("tile", {"rows": "many"}),
        ("block", {"rtol": -1}),
        ("histogram", {"bins": 0}),
        ("along", {"axis": 9}),
        ("slice", {"index": "0,0,0,0"}),
        ("slice", {"index": "__import__('os')"}),
        ("compared", {}),
    ],
)
def test_what_makes_no_sense_is_refused(part: str, args: dict[str, Any]) -> None:
    with pytest.raises(OpscopeError):
        look(np.zeros((4, 4)), part, args)


def test_a_sample_sees_every_column_of_a_large_array() -> None:
    array = np.broadcast_to(np.arange(2048, dtype=np.float32), (2048, 2048))
    found = look(array, "spread", {})
    assert found["sampled"]
    middle = dict(found["quantiles"])[0.5]
    assert middle == pytest.approx(1023.5, rel=0.02)


@pytest.mark.parametrize(
    "shape, of, expected",
    [
        ((32, 3, 5, 5), ("convolution", "input", 1), ("filters", 32, 5, 5, 3)),
        ((8, 4, 3, 3), ("convolution", "input", 1), ("filters", 32, 3, 3, 1)),
        ((2, 3, 16, 16), ("convolution", "input", 0), ("images", 2, 16, 16, 3)),
        ((2, 4, 16, 16), ("relu", "output", 0), ("channels", 8, 16, 16, 1)),
        ((2, 4, 9, 9), ("_softmax", "output", 0), ("attention", 8, 9, 9, 1)),
        ((16, 10), ("_softmax", "output", 0), None),
        ((0, 3, 16, 16), ("convolution", "input", 0), None),
        ((7,), ("add", "output", 0), None),
    ],
)
def test_shapes_suggest_pictures(shape: Any, of: Any, expected: Any) -> None:
    found = suggested(shape, *of)
    assert (found and tuple(found)) == expected
    if found is None:
        return
    array = array_of(shape)
    args = found._asdict() | {"total": found.count, "first": 1, "count": 2}
    shown = look(array, "pictures", args)
    planes = array.reshape(-1, found.colours, found.height, found.width)[1:3]
    assert shown["shown"] == len(planes)
    assert shown["elements"] == pytest.approx(np.moveaxis(planes, 1, -1).reshape(-1).tolist())
    apart = look(array, "pictures", args, array)
    assert set(apart["elements"]) == {0.0}


def test_large_pictures_are_thinned() -> None:
    args = {"kind": "images", "total": 2, "height": 300, "width": 200, "colours": 3}
    shown = look(array_of((2, 3, 300, 200)), "pictures", args)
    assert (shown["rows"], shown["columns"]) == (60, 40)
