// Fills the table with the functions of the MPI library whose header is found. It is compiled once for each library.
#define MPICH_SKIP_MPICXX 1
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <cstring>

#include "harness/fabric/mpi/mpi_table.hpp"

namespace {

using shardproof::fabric::mpi::MpiTable;
using shardproof::fabric::mpi::Status;

static_assert(MPI_SUCCESS == 0);
static_assert(sizeof(MPI_Request) <= sizeof(std::uint64_t));

/// Ranks of this project make their calls from one thread at a time. It may be another thread than the first one.
constexpr int threads_needed = MPI_THREAD_SERIALIZED;
constexpr Status too_few_threads = -1, finalized_already = -2;

// A library has one state in a process, and so has its module.
struct State {
  MPI_Comm ranks = MPI_COMM_NULL;
  bool was_initialized_here = false;
} state;

MPI_Request request_in(std::uint64_t word) {
  MPI_Request request;
  std::memcpy(&request, &word, sizeof request);
  return request;
}

void keep(MPI_Request request, std::uint64_t* word) {
  *word = 0;
  std::memcpy(word, &request, sizeof request);
}

void write_text(char* to, const char* text) {
  const std::size_t length = strnlen(text, MpiTable::text_bytes - 1);
  std::memcpy(to, text, length);
  to[length] = '\0';
}

void name(char* text) {
  char version[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(version, &length);
  // The libraries write more, over several lines. `Open MPI v4.1.4, package: …`; `MPICH Version:	4.0.2`
  version[std::strcspn(version, ",\n")] = '\0';
  for (char* tab = std::strchr(version, '\t'); tab != nullptr; tab = std::strchr(tab, '\t')) *tab = ' ';
  write_text(text, version);
}

Status start(int* rank, int* size, int* greatest_tag) {
  int is_initialized = 0, is_finalized = 0, threads = threads_needed;
  MPI_Initialized(&is_initialized);
  MPI_Finalized(&is_finalized);
  if (is_finalized != 0) return finalized_already;
  const Status begun =
      is_initialized != 0 ? MPI_Query_thread(&threads) : MPI_Init_thread(nullptr, nullptr, threads_needed, &threads);
  if (begun != MPI_SUCCESS) return begun;
  state.was_initialized_here = is_initialized == 0;
  if (threads < threads_needed) return too_few_threads;
  // The program may use MPI, too. Its messages and error handlers belong to its own communicators.
  if (const Status made = MPI_Comm_dup(MPI_COMM_WORLD, &state.ranks); made != MPI_SUCCESS) return made;
  MPI_Comm_set_errhandler(state.ranks, MPI_ERRORS_RETURN);
  int has_limit = 0;
  const int* limit = nullptr;
  MPI_Comm_get_attr(state.ranks, MPI_TAG_UB, &limit, &has_limit);
  *greatest_tag = has_limit != 0 ? *limit : 32767;
  MPI_Comm_rank(state.ranks, rank);
  return MPI_Comm_size(state.ranks, size);
}

Status send(const void* bytes, std::size_t count, int to, int tag, std::uint64_t* request) {
  MPI_Request begun = MPI_REQUEST_NULL;
  const Status status = MPI_Isend(bytes, static_cast<int>(count), MPI_BYTE, to, tag, state.ranks, &begun);
  keep(begun, request);
  return status;
}

Status receive(void* room, std::size_t bytes, int from, int tag, std::uint64_t* request) {
  MPI_Request begun = MPI_REQUEST_NULL;
  const Status status = MPI_Irecv(room, static_cast<int>(bytes), MPI_BYTE, from, tag, state.ranks, &begun);
  keep(begun, request);
  return status;
}

Status test(std::uint64_t* request, int* is_over) {
  MPI_Request begun = request_in(*request);
  const Status status = MPI_Test(&begun, is_over, MPI_STATUS_IGNORE);
  keep(begun, request);
  return status;
}

Status cancel(std::uint64_t* request) {
  MPI_Request begun = request_in(*request);
  // A test that failed has ended the request.
  return begun == MPI_REQUEST_NULL ? MPI_SUCCESS : MPI_Cancel(&begun);
}

Status probe(int* found, int* from, int* tag, std::size_t* bytes) {
  MPI_Status arrived;
  if (const Status status = MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, state.ranks, found, &arrived);
      status != MPI_SUCCESS || *found == 0)
    return status;
  int count = 0;
  *from = arrived.MPI_SOURCE;
  *tag = arrived.MPI_TAG;
  const Status status = MPI_Get_count(&arrived, MPI_BYTE, &count);
  *bytes = static_cast<std::size_t>(count);
  return status;
}

Status finish() {
  if (const Status status = MPI_Comm_free(&state.ranks); status != MPI_SUCCESS) return status;
  return state.was_initialized_here ? MPI_Finalize() : MPI_SUCCESS;
}

void error_text(Status status, char* text) {
  if (status == too_few_threads) return write_text(text, "it gives this program less than MPI_THREAD_SERIALIZED");
  if (status == finalized_already) return write_text(text, "this process has called MPI_Finalize already");
  char words[MPI_MAX_ERROR_STRING] = "unknown error";
  int length = 0;
  MPI_Error_string(status, words, &length);
  write_text(text, words);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const MpiTable* shardproof_mpi_table() {
  static const MpiTable table{.version = MpiTable::current_version,
                              .bytes = sizeof(MpiTable),
                              .name = name,
                              .start = start,
                              .send = send,
                              .receive = receive,
                              .test = test,
                              .cancel = cancel,
                              .probe = probe,
                              .finish = finish,
                              .error_text = error_text};
  return &table;
}
