// SPDX-License-Identifier: Apache-2.0
#include "serve/pictures/fetch.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <future>
#include <memory>
#include <new>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <variant>

#include "fovea/fovea.h"
#include "serve/pictures/ascii.h"
#include "serve/pictures/web_url.h"

namespace fovea::serve {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMostHeaderBytes = size_t{64} << 10;
constexpr long kSlowBytesPerSecond = 1024;
constexpr long kSlowSeconds = 5;
constexpr size_t kMostPinned = 8;  // addresses of one host that are tried
constexpr int kMostLookups = 64;   // that no answer has come to

struct FreeCurl {
  void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using CurlHandle = std::unique_ptr<CURL, FreeCurl>;
using CurlList = std::unique_ptr<curl_slist, FreeCurl>;

ApiError not_fetched(const std::string& param, std::string_view reason) {
  // An Error's message is one printable line.
  const Error error = bad_input(fmt::format("the picture could not be fetched: {}", reason));
  return {.status = 422, .message = error.message, .param = param, .code = "picture_not_fetched"};
}

// ---- The lookup: getaddrinfo() knows no limit of time and cannot be stopped.

std::atomic<int> lookups{0};

// A lookup, of whoever waits for it and of the thread that makes it.
struct Lookup {
  Lookup() : number(++lookups) {}
  ~Lookup() { --lookups; }
  Lookup(const Lookup&) = delete;
  Lookup& operator=(const Lookup&) = delete;

  int number;
  std::promise<std::vector<Address>> answer;
};

// Nothing where it takes too long. A thread of its own is waited for up to then, and left to end by
// itself: getaddrinfo_a() would need the same, as it cannot take back a question under way either,
// and no test could answer in its place.
std::optional<std::vector<Address>> look_up(const std::string& host, const Resolver& resolver,
                                            Clock::time_point until) {
  const auto lookup = std::make_shared<Lookup>();
  if (lookup->number > kMostLookups) return std::nullopt;
  std::future<std::vector<Address>> found = lookup->answer.get_future();
  try {
    std::thread([lookup, resolver, host] {
      try {
        lookup->answer.set_value(resolver(host));
      } catch (const std::bad_alloc&) {
        lookup->answer.set_exception(std::current_exception());
      }
    }).detach();
  } catch (const std::system_error&) {  // the system starts no more threads
    return std::nullopt;
  }
  if (found.wait_until(until) != std::future_status::ready) return std::nullopt;
  return found.get();
}

bool may_contact(const Address& address, const PictureLimits& limits) {
  return is_public(address) || (limits.allow_private && is_loopback(address));
}

// ---- The transfer.

// What ended a transfer from inside one of its callbacks.
enum class Stop { kNone, kAddress, kHeader, kEncoding, kStatus, kBytes, kMemory };

struct Transfer {
  const PictureLimits& limits;
  const WebUrl& url;
  std::vector<Address> addresses;  // checked; no other is contacted
  CURL* handle = nullptr;
  Stop stop = Stop::kNone;
  size_t header_bytes = 0;
  std::vector<uint8_t> body;

  size_t end(Stop why) {
    stop = why;
    return 0;
  }
  int status() const {
    long code = 0;
    curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &code);
    return static_cast<int>(code);
  }
};

int port_of(const curl_sockaddr& to) {
  // Both kinds have the port in one place.
  in_port_t port = 0;
  static_assert(offsetof(sockaddr_in, sin_port) == offsetof(sockaddr_in6, sin6_port));
  std::copy_n(reinterpret_cast<const char*>(&to.addr) + offsetof(sockaddr_in, sin_port),
              sizeof port, reinterpret_cast<char*>(&port));
  return ntohs(port);
}

// The last word on what is contacted: this very address is connected to when this returns.
curl_socket_t open_socket(void* self, curlsocktype purpose, curl_sockaddr* to) {
  auto& transfer = *static_cast<Transfer*>(self);
  const auto address = address_of(&to->addr, to->addrlen);
  const auto& known = transfer.addresses;
  if (purpose != CURLSOCKTYPE_IPCXN || !address || port_of(*to) != transfer.url.port ||
      std::find(known.begin(), known.end(), *address) == known.end() ||
      !may_contact(*address, transfer.limits)) {
    transfer.stop = Stop::kAddress;
    return CURL_SOCKET_BAD;
  }
  return ::socket(to->family, to->socktype | SOCK_CLOEXEC, to->protocol);
}

// A line of the answer's head. Encodings were not asked for; a bomb might come so. Takes no memory,
// since nothing may be thrown through libcurl.
size_t take_header(const char* data, size_t, size_t count, void* self) {
  auto& transfer = *static_cast<Transfer*>(self);
  transfer.header_bytes += count;
  if (transfer.header_bytes > kMostHeaderBytes) return transfer.end(Stop::kHeader);
  const std::string_view line(data, count);
  const size_t colon = std::min(line.find(':'), line.size());
  const bool of_content = is_same_text(line.substr(0, colon), "content-encoding");
  if (!of_content && !is_same_text(line.substr(0, colon), "transfer-encoding")) return count;
  constexpr const char* kSpace = ": \t\r\n";
  const size_t begin = std::min(line.find_first_not_of(kSpace, colon), line.size());
  const std::string_view value = line.substr(begin, line.find_last_not_of(kSpace) + 1 - begin);
  const bool plain = value.empty() || is_same_text(value, of_content ? "identity" : "chunked");
  return plain ? count : transfer.end(Stop::kEncoding);
}

size_t take_body(const char* data, size_t, size_t count, void* self) {
  auto& transfer = *static_cast<Transfer*>(self);
  if (transfer.status() != 200) return transfer.end(Stop::kStatus);
  const auto most = static_cast<size_t>(std::max<int64_t>(transfer.limits.bytes, 0));
  if (count > most - transfer.body.size()) return transfer.end(Stop::kBytes);
  try {
    transfer.body.insert(transfer.body.end(), data, data + count);
  } catch (const std::bad_alloc&) {
    return transfer.end(Stop::kMemory);
  }
  return count;
}

// "host:port:address,address": libcurl looks nothing up by itself.
std::string pin_of(const Transfer& transfer) {
  std::string list;
  for (const Address& address : transfer.addresses) {
    if (!list.empty()) list += ',';
    list += address.family == AF_INET6 ? "[" + text_of(address) + "]" : text_of(address);
  }
  return fmt::format("{}:{}:{}", transfer.url.host, transfer.url.port, list);
}

// Everything that libcurl is told; false where it does not take it.
bool prepare(Transfer& transfer, curl_slist* pins, curl_slist* fields, int time_ms) {
  CURLcode code = CURLE_OK;
  const auto set = [&](CURLoption option, auto value) {
    if (code == CURLE_OK) code = curl_easy_setopt(transfer.handle, option, value);
  };
  set(CURLOPT_CURLU, transfer.url.parts.get());
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_HTTP_VERSION, long{CURL_HTTP_VERSION_1_1});  // the least code that reads an answer
  set(CURLOPT_RESOLVE, pins);
  set(CURLOPT_OPENSOCKETFUNCTION, &open_socket);
  set(CURLOPT_OPENSOCKETDATA, &transfer);
  set(CURLOPT_FOLLOWLOCATION, 0L);
  set(CURLOPT_PROXY, "");  // neither is the environment asked
  set(CURLOPT_NOPROXY, "*");
  set(CURLOPT_NETRC, long{CURL_NETRC_IGNORED});
  set(CURLOPT_DISALLOW_USERNAME_IN_URL, 1L);
  set(CURLOPT_HTTPHEADER, fields);
  set(CURLOPT_USERAGENT, fmt::format("fovea/{}", version()).c_str());
  set(CURLOPT_SSL_VERIFYPEER, 1L);
  set(CURLOPT_SSL_VERIFYHOST, 2L);
  set(CURLOPT_NOSIGNAL, 1L);  // threads
  set(CURLOPT_TIMEOUT_MS, long{time_ms});
  set(CURLOPT_CONNECTTIMEOUT_MS, long{time_ms});
  set(CURLOPT_LOW_SPEED_LIMIT, kSlowBytesPerSecond);
  set(CURLOPT_LOW_SPEED_TIME, kSlowSeconds);
  set(CURLOPT_MAXFILESIZE_LARGE, curl_off_t{std::max<int64_t>(transfer.limits.bytes, 1)});
  set(CURLOPT_HEADERFUNCTION, &take_header);
  set(CURLOPT_HEADERDATA, &transfer);
  set(CURLOPT_WRITEFUNCTION, &take_body);
  set(CURLOPT_WRITEDATA, &transfer);
  return code == CURLE_OK;
}

// ---- What a client is told.

std::string too_slow(const PictureLimits& limits) {
  return fmt::format("it took longer than {} ms, or came too slowly", limits.fetch_ms);
}

std::string lookup_too_slow(const PictureLimits& limits) {
  return fmt::format("looking up its host took longer than {} ms, or too many lookups wait",
                     limits.fetch_ms);
}

std::string too_large(const PictureLimits& limits) {
  return fmt::format("it has more than {} bytes; make it smaller", limits.bytes);
}

std::string reason_of(CURLcode code, const PictureLimits& limits) {
  switch (code) {
    case CURLE_OPERATION_TIMEDOUT:
      return too_slow(limits);
    case CURLE_FILESIZE_EXCEEDED:
      return too_large(limits);
    case CURLE_COULDNT_CONNECT:
      return "the host takes no connection";
    case CURLE_PEER_FAILED_VERIFICATION:
      return "the host's certificate does not hold";
    case CURLE_SSL_CONNECT_ERROR:
      return "no secure connection to the host came about";
    case CURLE_GOT_NOTHING:
    case CURLE_PARTIAL_FILE:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
      return "the host's answer is not whole";
    default:
      return "the host's answer cannot be read";
  }
}

// Why a transfer that has ended is no success; empty where it is one.
std::string failure(const Transfer& transfer, CURLcode code) {
  const int status = transfer.status();
  switch (transfer.stop) {
    case Stop::kAddress:
      return "the host is not at a public address";
    case Stop::kHeader:
      return fmt::format("the head of its answer has more than {} bytes", kMostHeaderBytes);
    case Stop::kEncoding:
      return "its answer is compressed, which was not asked for";
    case Stop::kBytes:
      return too_large(transfer.limits);
    case Stop::kMemory:
      return "there is not enough memory for it; make it smaller";
    case Stop::kStatus:
    case Stop::kNone:
      break;
  }
  if (status >= 300 && status < 400)
    return fmt::format("the host answered {}; redirects are not followed", status);
  if (status >= 200 && status != 200) return fmt::format("the host answered {}", status);
  if (code != CURLE_OK) return reason_of(code, transfer.limits);
  return status == 200 ? "" : "the host's answer cannot be read";
}

bool curl_is_ready() {
  static const bool ready = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  return ready;
}

ApiResult<std::vector<uint8_t>> transfer_from(const WebUrl& url, std::vector<Address> addresses,
                                              const PictureLimits& limits, Clock::time_point until,
                                              const std::string& param) {
  const CurlHandle handle(curl_easy_init());
  Transfer transfer{
      .limits = limits, .url = url, .addresses = std::move(addresses), .handle = handle.get()};
  const bool is_address = url.host.starts_with('[');  // that no pin can be written for
  const CurlList pins(is_address ? nullptr : curl_slist_append(nullptr, pin_of(transfer).c_str()));
  // Hosts that offer a choice might send a kind that Fovea does not read.
  const CurlList fields(curl_slist_append(
      nullptr, "Accept: image/png, image/jpeg, image/webp, application/octet-stream;q=0.5"));
  if (!handle || (!pins && !is_address) || !fields) throw std::bad_alloc();
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now());
  if (left.count() < 1) return not_fetched(param, too_slow(limits));
  if (!prepare(transfer, pins.get(), fields.get(), static_cast<int>(left.count())))
    return not_fetched(param, "libcurl lacks what makes it safe");
  const CURLcode code = curl_easy_perform(handle.get());
  const std::string reason = failure(transfer, code);
  if (!reason.empty()) return not_fetched(param, reason);
  return std::move(transfer.body);
}

}  // namespace

std::vector<Address> ask_system(const std::string& host) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* first = nullptr;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &first) != 0) return {};
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owned(first, &freeaddrinfo);
  std::vector<Address> addresses;
  for (const addrinfo* info = first; info != nullptr; info = info->ai_next)
    if (const auto address = address_of(info->ai_addr, info->ai_addrlen))
      addresses.push_back(*address);
  return addresses;
}

ApiResult<std::vector<uint8_t>> fetch_picture(const std::string& url, const PictureLimits& limits,
                                              const std::string& param, const Resolver& resolver) {
  const auto until = Clock::now() + std::chrono::milliseconds(std::max(limits.fetch_ms, 1));
  if (!curl_is_ready()) throw std::bad_alloc();
  auto read = read_web_url(url, param);
  if (auto* error = std::get_if<ApiError>(&read)) return std::move(*error);
  const WebUrl& from = std::get<WebUrl>(read);
  if (!is_allowed(from, limits.hosts))
    return wrong_param(param,
                       "pictures are not fetched from this host; send the picture as a data: URL, "
                       "or have the server started with this host and port allowed",
                       "picture_host_not_allowed");
  const bool in_brackets = from.host.starts_with('[');
  auto addresses =
      look_up(in_brackets ? from.host.substr(1, from.host.size() - 2) : from.host, resolver, until);
  if (!addresses) return not_fetched(param, lookup_too_slow(limits));
  if (addresses->empty()) return not_fetched(param, "the host's name is not known");
  if (!std::all_of(addresses->begin(), addresses->end(),
                   [&](const Address& address) { return may_contact(address, limits); }))
    return not_fetched(param, "the host is not at a public address");
  addresses->resize(std::min(addresses->size(), kMostPinned));
  return transfer_from(from, *std::move(addresses), limits, until, param);
}

}  // namespace fovea::serve
