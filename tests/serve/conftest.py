# SPDX-License-Identifier: Apache-2.0


def pytest_addoption(parser):
    parser.addoption("--program", default="build/release/bin/fovea", help="the program to test")
