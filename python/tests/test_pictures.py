# SPDX-License-Identifier: Apache-2.0
"""Pictures in every form, and what is wrong with those that are none."""

import pathlib

import numpy as np
import pytest

import fovea
from conftest import SCENE

PIXELS = fovea.load_image(SCENE)


class Tensor:
    """What a torch tensor is to others: DLPack, and no buffer."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **kwargs):
        return self.array.__dlpack__(**kwargs)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class DeviceTensor:
    """A tensor that lies on a GPU: nobody but its own cpu() may read it."""

    def __init__(self, array):
        self.array, self.copies = array, 0

    def __dlpack__(self, **kwargs):
        raise AssertionError("read on the device, without its stream")

    def __dlpack_device__(self):
        return (2, 0)  # CUDA, the first

    def cpu(self):
        self.copies += 1
        return self.array


def same(picture, expected=PIXELS):
    return np.array_equal(fovea.load_image(picture), expected)


def test_files_by_path_and_by_bytes():
    data = SCENE.read_bytes()
    assert PIXELS.shape == (160, 288, 3) and PIXELS.dtype == np.uint8
    for picture in (str(SCENE), pathlib.Path(SCENE), data, bytearray(data), memoryview(data)):
        assert same(picture)
    for wrong in ("/no/such/picture.png", b"", b"GIF89a", data[:100], "", "\0", str(SCENE.parent)):
        with pytest.raises(fovea.InputError) as caught:
            fovea.load_image(wrong)
        assert str(caught.value) and "\n" not in str(caught.value)


def test_arrays_of_any_strides():
    wide = np.zeros((160, 576, 4), np.uint8)
    wide[:, ::2, :3] = PIXELS
    planes = np.ascontiguousarray(PIXELS.transpose(2, 0, 1))
    frozen = PIXELS.copy()
    frozen.flags.writeable = False
    for array in (PIXELS, wide[:, ::2, :3], planes.transpose(1, 2, 0), np.asfortranarray(PIXELS), frozen,
                  memoryview(PIXELS), Tensor(PIXELS), Tensor(planes.transpose(1, 2, 0))):
        assert same(array)
    assert same(PIXELS[::-1], PIXELS[::-1]) and same(PIXELS[:, ::-1, ::-1], PIXELS[:, ::-1, ::-1])
    assert same(PIXELS[:1, :1], PIXELS[:1, :1])


def test_pixels_are_copied_in():
    mine = PIXELS.copy()
    there = fovea.load_image(mine)
    mine[:] = 0
    assert np.array_equal(there, PIXELS)


def test_pil_images():
    image = pytest.importorskip("PIL.Image").open(SCENE)
    assert same(image) and same(image.convert("RGBA"))
    grey = image.convert("L")
    assert same(grey, np.repeat(np.asarray(grey)[:, :, None], 3, axis=2))
    for mode in ("1", "P", "CMYK", "F", "I"):
        assert fovea.load_image(image.convert(mode)).shape == PIXELS.shape


def test_torch_tensors():
    torch = pytest.importorskip("torch")
    tensor = torch.from_numpy(PIXELS.copy())
    assert same(tensor) and same(tensor.permute(2, 0, 1).contiguous().permute(1, 2, 0))
    with pytest.raises(fovea.InputError, match="float32"):
        fovea.load_image(tensor.float())


def test_tensors_of_a_device_are_copied_by_their_own_cpu(engine):
    """torch's cpu() waits for the stream that the caller works on; a stand-in shows who is asked, and how often."""
    tensor = DeviceTensor(PIXELS)
    assert same(tensor) and tensor.copies == 1
    assert np.array_equal(fovea.see(tensor).relevance, fovea.see(PIXELS).relevance)
    assert np.array_equal(fovea.plan(tensor, budget=20).cells, fovea.plan(PIXELS, budget=20).cells)
    assert np.array_equal(fovea.crops(tensor).crops, fovea.crops(PIXELS).crops)
    assert engine.ask([tensor, PIXELS], "How many?", max_tokens=2).text == engine.ask(
        [PIXELS, PIXELS], "How many?", max_tokens=2).text
    session = engine.session(tensor)
    session.add(tensor)
    assert session.images == 2
    with pytest.raises(fovea.InputError, match="float32"):
        fovea.load_image(DeviceTensor(PIXELS.astype(np.float32)))


def test_plans_and_maps_of_a_device_are_too():
    cells = fovea.plan(PIXELS, budget=20).cells
    given = fovea.patches(PIXELS, plan=DeviceTensor(np.asarray(cells)))
    assert np.array_equal(given.values, fovea.patches(PIXELS, plan=cells).values)
    coupling = np.linspace(0, 1, 45, dtype=np.float32).reshape(5, 9)
    assert np.array_equal(fovea.see(PIXELS, coupling=DeviceTensor(coupling)).coupling,
                          fovea.see(PIXELS, coupling=coupling).coupling)


def test_arrays_that_are_no_pictures():
    for wrong, line in ((PIXELS.astype(np.float32), "float32"), (PIXELS.astype(np.int16), "int16"),
                        (PIXELS > 7, "bool"), (PIXELS[:, :, 0], r"\[160, 288\]"),
                        (PIXELS.transpose(2, 0, 1), r"\[3, 160, 288\]"), (PIXELS[None], "height, width"),
                        (PIXELS[:, :, :2], r"288, 2\]"), (np.zeros(7, np.uint8), "bytes"),
                        (np.zeros((0, 4, 3), np.uint8), "no pixels"), (np.uint8(3), "shape")):
        with pytest.raises(fovea.InputError, match=line):
            fovea.see(wrong)
    with pytest.raises(fovea.InputError, match="over the limit"):
        fovea.see(PIXELS, max_pixels=10)
    with pytest.raises(fovea.InputError, match="ratio|side"):
        fovea.see(np.zeros((1, 4000, 3), np.uint8))
    for wrong in (3, 2.5, object(), {"a": 1}, [PIXELS], np.array(["x"])):
        with pytest.raises((TypeError, fovea.InputError)):
            fovea.see(wrong)


def test_one_pixel_is_a_picture(engine):
    one = np.full((1, 1, 3), 200, np.uint8)
    assert fovea.see(one).image == (1, 1) and fovea.patches(one).values.shape[1] == 1536
    assert engine.ask(one, "What is it?", max_tokens=1).looks[0].image == (1, 1)
