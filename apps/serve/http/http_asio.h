// SPDX-License-Identifier: Apache-2.0
// The parts of Boost.Asio that the server uses. They are included from here alone, so that all
// files see them with the same settings.
#pragma once

// Fences around handlers, beside the mutex of the loop that orders them anyway. The thread
// sanitizer does not know fences, and g++ warns that it does not.
#define BOOST_ASIO_DISABLE_FENCED_BLOCK

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
