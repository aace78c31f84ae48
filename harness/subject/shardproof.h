/* An engine under test, in any language: the interface of harness/subject/subject.hpp in plain C.
 *
 * A subject is a table of functions. The harness calls them in the order of a script. Models and plans are JSON, and
 * tensors are borrowed DLPack views. The harness gives a trainer an engine context: a device for its work, and
 * collectives for its communication. The suite observes the subject only through these two. So the subject declares
 * there everything that it does on the device.
 *
 * Two ways to provide a subject:
 *   - a shared object that exports `shardproof_subject_table`, run with
 *     `shardproof run --subject ./libmy_engine.so`;
 *   - a program that loads libshardproof-worker.so and calls `shardproof_worker_main`, run with
 *     `shardproof run --worker ./my_program`.
 *
 * Rules of the boundary. No exception crosses it, in either direction. A function that does something returns a
 * shardproof_status. If it is not SHARDPROOF_OK, the reason is in the reply (functions of the subject) or in `error`
 * (functions of the harness, including hooks). A function of the subject fails if a function of the harness failed
 * within it, whatever it returns. These functions return no status:
 *   - `let_go` and `drop_group`: the harness still reports their failures;
 *   - the queries `data`, `bytes`, `group_rank`, `group_size`, `group_members` and `error`: for an object that is
 *     NULL or gone they return NULL or 0, and `group_rank` returns -1;
 *   - `fail`, `warn` and `fork`.
 *
 * Texts are UTF-8 and end with a NUL. The side that passes a text owns it. Pointers that a call passes are valid
 * until it returns, unless a comment says otherwise.
 *
 * A rank calls a subject from one thread, one function at a time. Only that thread may call functions of the
 * harness, one at a time, and only while it is in a function of the subject. In another thread they only fail. Then
 * the subject's current function fails, too, or else its next function. If ranks are threads, several trainers of
 * the subject are in one process, each with its own thread.
 *
 * The interface is not frozen before version 1.0 of the project: the harness refuses a table of another
 * SHARDPROOF_ABI_VERSION. docs/compatibility.md lists the changes of each version. */
#ifndef SHARDPROOF_H
#define SHARDPROOF_H

#include <dlpack/dlpack.h>
#include <stddef.h>
#include <stdint.h>

/* NOLINTBEGIN: a C header, with names in C style */
#ifdef __cplusplus
extern "C" {
#endif

#define SHARDPROOF_ABI_VERSION 6

/* Objects of the harness. */
typedef struct shardproof_device shardproof_device;
typedef struct shardproof_group shardproof_group;
typedef struct shardproof_buffer shardproof_buffer;
typedef struct shardproof_reply shardproof_reply;

/* Objects of the subject. */
typedef struct shardproof_trainer shardproof_trainer;

/* A stream is a number, valid as long as its device. This stream exists from the start. */
#define SHARDPROOF_COMPUTE_STREAM 0u

/* Enumerations are numbers of 32 bits, so that the harness can refuse a number without a meaning. */

/* How a call ended. The harness never reads a status from an error text. Any other number is a failure. */
typedef uint32_t shardproof_status;
enum {
  SHARDPROOF_OK,
  SHARDPROOF_FAILED,
  SHARDPROOF_PLANNED_FAILURE, /* of `perform`: the module in `fails_in` of the action has failed, as planned */
  SHARDPROOF_UNSUPPORTED      /* the subject lacks a feature that the call needs */
};

typedef uint32_t shardproof_stream_role;
enum {
  SHARDPROOF_STREAM_COMPUTE,
  SHARDPROOF_STREAM_COPY_IN,
  SHARDPROOF_STREAM_ALL_GATHER,
  SHARDPROOF_STREAM_REDUCE,
  SHARDPROOF_STREAM_ALL_REDUCE,
  SHARDPROOF_STREAM_OTHER
};

/* The purpose of a piece of work. With its label it selects a cost of the scenario. */
typedef uint32_t shardproof_work_kind;
enum {
  SHARDPROOF_WORK_FORWARD,         /* a module's own forward computation; the label is its path */
  SHARDPROOF_WORK_BACKWARD,        /* its own backward computation */
  SHARDPROOF_WORK_COPY_IN,         /* packing shards for an all-gather; label: the first module of the group */
  SHARDPROOF_WORK_COPY_OUT,        /* unpacking gathered shards into parameters */
  SHARDPROOF_WORK_REDUCE_COPY_IN,  /* packing gradients for a reduction */
  SHARDPROOF_WORK_REDUCE_COPY_OUT, /* unpacking, scaling or accumulating reduced gradients */
  SHARDPROOF_WORK_LOSS,
  SHARDPROOF_WORK_OPTIMIZER, /* label: the parameter */
  SHARDPROOF_WORK_FILL,
  SHARDPROOF_WORK_OTHER
};

/* The content of a buffer. The harness counts live bytes by these classes. */
typedef uint32_t shardproof_memory;
enum {
  /* this rank's part of a parameter; label, as for all that belongs to one parameter: its name */
  SHARDPROOF_MEMORY_SHARD,
  SHARDPROOF_MEMORY_GATHERED, /* flat result of an all-gather */
  SHARDPROOF_MEMORY_PARAMETER, /* unsharded parameter */
  SHARDPROOF_MEMORY_GRADIENT, /* unsharded gradient */
  SHARDPROOF_MEMORY_SHARDED_GRADIENT,
  SHARDPROOF_MEMORY_REDUCE_INPUT, /* flat operand of a reduction */
  SHARDPROOF_MEMORY_OPTIMIZER_STATE,
  SHARDPROOF_MEMORY_ACTIVATION,
  SHARDPROOF_MEMORY_OTHER
};

typedef uint32_t shardproof_collective_kind;
enum {
  SHARDPROOF_ALL_GATHER, /* out = size of the group x in */
  SHARDPROOF_REDUCE_SCATTER, /* in = size x out */
  SHARDPROOF_ALL_REDUCE, /* in = out */
  SHARDPROOF_BROADCAST, /* in = out; `in` is read at the root only, and may be empty elsewhere */
  SHARDPROOF_ALL_TO_ALL, /* in = out */
  SHARDPROOF_BARRIER /* no operands */
};

typedef uint32_t shardproof_reduce_op;
enum {
  SHARDPROOF_OP_NONE, /* of collectives that do not reduce */
  SHARDPROOF_OP_SUM,
  SHARDPROOF_OP_AVG, /* the sum, then one division by the number of ranks */
  SHARDPROOF_OP_PREMUL_SUM, /* of operands times `factor` */
  SHARDPROOF_OP_MAX,
  SHARDPROOF_OP_MIN
};

/* A tensor, and the buffer that contains its memory. Without a buffer (NULL) it is host memory that no device knows.
 *   - `view.data` with `view.byte_offset` points into the buffer, at a multiple of the size of an element.
 *   - Dtypes: float of 64, 32 and 16 bits, bfloat of 16, int of 64, 32, 16 and 8, uint of 8; one lane.
 *   - The elements are row-major without gaps; strides may be NULL.
 *   - At most 32 dimensions. Without dimensions, the tensor has one element.
 *   - A tensor without elements may have no data. An undefined tensor has no data and no dtype: all zero.
 *   - Devices are kDLCPU, or on a GPU kDLCUDA. The device number is ignored: the device is the current one of the
 *     calling thread. */
typedef struct shardproof_tensor {
  DLTensor view;
  shardproof_buffer *buffer;
} shardproof_tensor;

/* Consecutive elements of a buffer, which work and collectives touch. An operand of a collective, or a tensor, must
 * have the dtype that the memory was written as. Elements of one byte may be anything. */
typedef struct shardproof_span {
  shardproof_buffer *buffer;
  uint64_t offset; /* bytes: a multiple of the size of an element */
  uint64_t count; /* elements */
  DLDataType dtype;
} shardproof_span;

/* A piece of work, and the bytes that it touches. */
typedef struct shardproof_work {
  shardproof_work_kind kind;
  const char *label;
  const shardproof_span *reads, *writes;
  size_t read_count, write_count;
  /* >= 0, in addition to the scenario's cost for this kind and label, for example for the sleep of a module. */
  int64_t cost_ns;
  /* Called once before `submit` returns. It does the work or puts it on the native stream (a cudaStream_t on a GPU,
   * NULL on the simulated device). NULL: no work, or the work is done already. */
  shardproof_status (*run)(void *context, void *native_stream, shardproof_reply *reply);
  void *context;
} shardproof_work;

typedef struct shardproof_collective {
  shardproof_collective_kind kind;
  shardproof_reduce_op op;
  double factor; /* of SHARDPROOF_OP_PREMUL_SUM */
  int root; /* of a broadcast: a rank of the group */
  shardproof_span in, out;
  const char *tag; /* its purpose: the first module of its parameter group */
} shardproof_collective;

/* The harness's side. `device` and groups belong to one engine context. Without an engine context, call only `fail` and
 * `warn`. */
typedef struct shardproof_harness {
  uint32_t abi_version;
  size_t size; /* of this table: later versions append */

  /* The reason of the last failed call on this device, on one of its groups, or of a hook. Empty: no call has
   * failed. Valid until the next call that fails. */
  const char *(*error)(shardproof_device *device);

  /* For functions of the subject: the reason of a failure (the last text counts), and a warning for the user. */
  void (*fail)(shardproof_reply *reply, const char *text);
  void (*warn)(shardproof_reply *reply, const char *text);

  /* -- Streams and events, as in CUDA. An event is one record of a stream, never reused, and valid until `destroy` has
   * returned. */
  shardproof_status (*create_stream)(shardproof_device *device, shardproof_stream_role role, const char *name,
                                     uint32_t *stream);
  shardproof_status (*submit)(shardproof_device *device, uint32_t stream, const shardproof_work *work);
  shardproof_status (*record)(shardproof_device *device, uint32_t stream, uint64_t *event);
  shardproof_status (*wait)(shardproof_device *device, uint32_t stream, uint64_t event);
  shardproof_status (*synchronize_stream)(shardproof_device *device, uint32_t stream);
  shardproof_status (*synchronize_event)(shardproof_device *device, uint64_t event);
  shardproof_status (*synchronize)(shardproof_device *device);

  /* -- Memory. A buffer is valid until it is released. It may have no bytes. At first it holds poison (0xFF, a NaN in
   * all floating types); on the simulated device, it holds poison again after its release. It is aligned for elements
   * of any dtype. */
  shardproof_status (*allocate)(shardproof_device *device, uint32_t stream, size_t bytes, shardproof_memory memory,
                                const char *label, shardproof_buffer **buffer);
  /* Like `allocate`, for memory that the subject has by other means. Only on the simulated device. The harness does
   * not free this memory. It fills the memory only in cases of the feature `hidden_memory`, while work runs that
   * does not declare it. When that work has ended, the memory is as before. It begins at a multiple of 8 bytes, does
   * not move until its release, and is not part of another buffer until then. */
  shardproof_status (*adopt)(shardproof_device *device, uint32_t stream, void *data, size_t bytes,
                             shardproof_memory memory, const char *label, shardproof_buffer **buffer);
  /* Changes the class and the label of a buffer, as if `allocate` had got them. */
  shardproof_status (*describe)(shardproof_device *device, shardproof_buffer *buffer, shardproof_memory memory,
                                const char *label);
  /* Releases the buffer when all work issued so far on the stream has ended. All other uses of the buffer must end
   * before that, because the memory may then belong to another buffer. */
  shardproof_status (*release)(shardproof_device *device, uint32_t stream, shardproof_buffer *buffer);
  /* Like `release`, for adopted memory of a caching allocator, for example a framework's. The allocator gives the
   * memory to the next request on the stream. So all other uses of it must end before the next buffer is adopted on
   * this stream. */
  shardproof_status (*release_to_cache)(shardproof_device *device, uint32_t stream, shardproof_buffer *buffer);
  void *(*data)(shardproof_buffer *buffer);
  size_t (*bytes)(shardproof_buffer *buffer);
  /* Lets go of a buffer in the answer of a hook: see shardproof_contribution. A released buffer is let go already. */
  void (*let_go)(shardproof_device *device, shardproof_buffer *buffer);
  /* Declares that the host itself will now touch these bytes. It does not wait. */
  shardproof_status (*host_access)(shardproof_device *device, const char *label, const shardproof_span *reads,
                                   size_t read_count, const shardproof_span *writes, size_t write_count);

  /* -- Groups of ranks. All ranks of a group issue the same collectives on a stream, in the same order. A collective of
   * a single rank is an error. */
  int (*group_rank)(shardproof_group *group);
  int (*group_size)(shardproof_group *group);
  const int *(*group_members)(
      shardproof_group *group); /* global ranks, in order of the group; valid as long as the group */
  shardproof_status (*run)(shardproof_group *group, uint32_t stream, const shardproof_collective *collective);
  /* Collective over the group: ranks of equal color form a part, ordered by (key, rank). With a negative color `part`
   * is NULL. */
  shardproof_status (*split)(shardproof_group *group, int color, int key, const char *name, shardproof_group **part);
  void (*drop_group)(shardproof_group *part);
  /* Issues `count` collectives of one kind as a single collective: all start when all can start, and all end
   * together. None of them may read or write memory that another one writes. */
  shardproof_status (*run_coalesced)(shardproof_group *group, uint32_t stream, const shardproof_collective *collectives,
                                     size_t count);
} shardproof_harness;

/* The place of a trainer: its rank's device, and the collectives of the whole world on it. Valid until `destroy` has
 * returned. */
typedef struct shardproof_engine_context {
  const shardproof_harness *harness;
  shardproof_device *device;
  shardproof_group *world;
  int rank;
} shardproof_engine_context;

/* One parameter on one rank; tensors are valid on the compute stream. The shard is the part of the logical tensor that
 * begins at `start` along `dim`. With `dim` = SHARDPROOF_FLATTENED the shard has one dimension: the elements of the
 * logical tensor from `start` on, row-major. */
#define SHARDPROOF_FLATTENED (-1)
typedef struct shardproof_parameter {
  const char *name;
  const int64_t *shape; /* logical */
  int ndim;
  int dim;
  int64_t start;
  /* f32, or the parameter's dtype in `parameter_dtypes` of the plan. May have no rows. Undefined while the parameter
   * is meta. */
  shardproof_tensor shard;
  shardproof_tensor second; /* of a pair: its second tensor, of the shard's shape; else undefined */
  shardproof_tensor gradient; /* of the shard's shape and dtype; undefined if the parameter has no gradient */
} shardproof_parameter;

/* -- All-gather extensions: harness/subject/extension.hpp describes hooks. The harness gives them to the subject, which
 * calls them. */

typedef struct shardproof_shard {
  const char *parameter;
  const shardproof_tensor *components; /* one, or the two of a pair; padded to one shape on all ranks */
  size_t component_count;
  int64_t rows; /* the number of this rank's own rows */
} shardproof_shard;

/* More arguments of a pre hook of the full form; NULL in the minimal form. */
typedef struct shardproof_shard_context {
  const int *mesh; /* global ranks that the parameter is sharded over, in order */
  size_t mesh_size;
  const int64_t *shape, *stride; /* of the whole parameter; strides count elements */
  int ndim;
  const char *module; /* path of the module that holds it */
  const char *policy; /* JSON: mixed_precision as in the plan */
} shardproof_shard_context;

/* The contribution of a rank to one gather. The tensors belong to the hook. Their buffers may be the subject's own.
 * When the subject has issued the gather, it lets go of each buffer once, also of a buffer that several tensors
 * share. */
typedef struct shardproof_contribution {
  const shardproof_tensor *tensors;
  size_t tensor_count;
  uint64_t metadata; /* for the post hook of this gather, on this rank; 0: none */
} shardproof_contribution;

typedef struct shardproof_contributions {
  const char *parameter;
  const shardproof_tensor *tensors; /* for each one [ranks x rows of one, ...] */
  size_t tensor_count;
  uint64_t metadata;
  DLDataType param_dtype; /* the dtype that layers compute in */
} shardproof_contributions;

/* A whole parameter that a post hook has made. */
typedef struct shardproof_unsharded {
  uint64_t id; /* given by the hook; 0: it has made nothing */
  shardproof_tensor value; /* a view of a contribution, or the hook's own memory */
  /* The subject frees the memory of these tensors when it reshards the parameter, and allocates it again for the next
   * gather. It lets go of each buffer in `value` and `to_free` once, or releases it. */
  const shardproof_tensor *to_free;
  size_t to_free_count;
} shardproof_unsharded;

typedef struct shardproof_extension {
  void *context;
  int is_full; /* the full form */
  int has_pre, has_post;
  /* `out` is valid until the next call of a hook of this extension. */
  shardproof_status (*pre)(void *context, const shardproof_shard *shard, const shardproof_shard_context *shard_context,
                           uint32_t stream, shardproof_contribution *out);
  /* At the first gather of a parameter `out` is NULL, and the hook fills `made`. At later gathers `out` is the same
   * parameter, with its id, and its tensors have memory. */
  shardproof_status (*post)(void *context, const shardproof_contributions *all, uint32_t stream,
                            const shardproof_unsharded *out, shardproof_unsharded *made);
  /* The reason of the last failed hook of this extension. */
  const char *(*error)(void *context);
} shardproof_extension;

/* -- Gradient hooks: functions of the user that the subject calls around its reductions. The harness gives them to the
 * subject. */

typedef struct shardproof_gradient_hook {
  void *context;
  uint64_t state; /* the user's: the subject passes it to each call */
  /* `label`: the group or bucket, as its collectives are tagged, or the parameter. Both tensors are flat and in a
   * buffer of the device. The hook puts its work on `stream`.
   *   - Point `reduction`: `gradient` is the whole contribution of this rank, with padding, undivided. The hook
   *     reduces and divides it. If ranks shard the result, the hook writes this rank's part into `output`. Otherwise
   *     `output` is undefined, and the result is in `gradient`.
   *   - Other points: `gradient` is the result so far, which the hook may change in place. `output` is undefined.
   * NULL: the hook is not callable, and the subject must refuse it. */
  shardproof_status (*call)(void *context, uint64_t state, const char *label, const shardproof_tensor *gradient,
                            const shardproof_tensor *output, uint32_t stream);
  /* The reason of the last failed call of this hook. */
  const char *(*error)(void *context);
} shardproof_gradient_hook;

/* -- The subject's side. */

/* The claim of a subject for one kind of engine. `engine` is the name of the section in plans. The harness allows a
 * kind that it does not know: no case needs it. It ignores features of such a kind that it does not know. It refuses a
 * feature that a known kind does not have. */
typedef struct shardproof_claim {
  const char *engine;
  const char *const *features; /* names as in docs/plug-in-an-engine.md, the last one NULL */
} shardproof_claim;

/* The table, and all that it points to, must stay unchanged until the process ends. */
typedef struct shardproof_subject {
  uint32_t abi_version; /* SHARDPROOF_ABI_VERSION */
  size_t size; /* sizeof(shardproof_subject): later versions append members, which older tables do not have */
  /* Name and version, as in `--subject` and in reports: 1 to 64 bytes of visible characters, without a blank at either
   * end. The name has no comma, plus or slash, does not end in .so, and is neither `reference` nor `pytorch`, which are
   * other subjects. */
  const char *name;
  const char *version;
  /* One for each kind of engine. The suites skip cases of other kinds and features. */
  const shardproof_claim *claims;
  size_t claim_count;
  void *context;

  /* Does the slow part of the start that is the same for all ranks. The harness calls it before the first world, in
   * the process that ranks are copies of. There is no engine context yet. The function flushes its output. Copies have
   * the memory of the process, but not its threads and GPU context. A thread that is left when it returns is an error,
   * which ends the run. Ranks of another launcher, or under --nccl-tap, are not copies: the harness then does not
   * call `prepare`, and `create` must work without it. NULL: there is nothing to prepare. */
  shardproof_status (*prepare)(void *context, const shardproof_harness *harness, shardproof_reply *reply);
  /* Copies this process, for a runtime that must know of copies. Returns the process id of the copy, 0 in the copy,
   * and a negative number after a failure, which errno explains. It leaves no thread running in either process.
   * NULL: the harness calls fork. */
  int (*fork)(void *context);

  /* `model` and `plan` are JSON as in docs/scenarios.md. A create that returns SHARDPROOF_OK has made a trainer, and
   * `destroy` follows, perhaps at once after another failure. A create that fails keeps nothing: its engine context is
   * gone when it has returned. */
  shardproof_status (*create)(void *context, const char *model, const char *plan,
                              const shardproof_engine_context *engine_context, shardproof_trainer **trainer,
                              shardproof_reply *reply);
  /* The trainer is gone when this has returned, whatever it returns. A failure fails the case of the trainer, unless
   * the case has failed before. Warnings go to the rank's log. */
  shardproof_status (*destroy)(shardproof_trainer *trainer, shardproof_reply *reply);
  /* `action` is JSON, an element of a script's body. forward and evaluate have a batch, `input` and `targets`, in
   * buffers. For other actions both are undefined. `targets` is also undefined if the loss does not need them. The
   * batch of a forward that succeeds is valid until the first forward after its backward has succeeded, or until
   * `destroy` has returned. Other batches are valid until the call returns. For an action that the subject does not
   * know, return SHARDPROOF_UNSUPPORTED. */
  shardproof_status (*perform)(shardproof_trainer *trainer, const char *action, const shardproof_tensor *input,
                               const shardproof_tensor *targets, shardproof_reply *reply);
  /* If `parameter` is empty, the extension is for all parameters of the kind `kind`. The extension is valid until
   * `destroy` has returned. NULL: the subject supports no extensions. */
  shardproof_status (*extend)(shardproof_trainer *trainer, const char *parameter, const char *kind,
                              const shardproof_extension *extension, shardproof_reply *reply);
  /* `point`: when the subject calls the hook, in the words of scripts: `reduction` (instead of its own reduction),
   * `after_reduction` or `after_accumulation`. `module`: the hook is for the groups of modules, or the parameters, at
   * or under this path. With `direct` the hook is for the group of this module alone, and the subject skips the checks
   * of a registration. A refused registration changes nothing. The hook is valid until `destroy` has returned. If the
   * registration has failed, each call of the hook fails. NULL: the subject supports no gradient hooks. */
  shardproof_status (*register_gradient_hook)(shardproof_trainer *trainer, const char *point, const char *module,
                                              int direct, const shardproof_gradient_hook *hook,
                                              shardproof_reply *reply);
  /* One element, of the last forward or evaluate. The harness borrows it, and the parameters below, until the next
   * call. */
  shardproof_status (*loss)(shardproof_trainer *trainer, shardproof_tensor *loss, shardproof_reply *reply);
  shardproof_status (*parameters)(shardproof_trainer *trainer, const shardproof_parameter **parameters, size_t *count,
                                  shardproof_reply *reply);
  /* For an engine that compiles its step: the passes that it had compiled and played, from the end of the previous
   * backward to the end of the last one. A pass that ran eagerly is not in the plan. `plan` is JSON as in
   * docs/plug-in-an-engine.md, and the harness reads it before the next call. The harness asks after each backward
   * of a plan with a compiled step. NULL: the subject compiles nothing. */
  shardproof_status (*compiled_plan)(shardproof_trainer *trainer, const char **plan, shardproof_reply *reply);

  /* Appended within version 6: an older table, whose `size` leaves it out, means 0. Not 0: the runtime of the engine
   * starts threads that it keeps, or handles signals, until the process ends. Other threads must have ended when
   * `destroy` has returned: a thread that outlives its case fails the case. */
  int keeps_threads;
} shardproof_subject;

/* The function that a shared object for `--subject` exports. */
#define SHARDPROOF_SUBJECT_TABLE "shardproof_subject_table"
typedef const shardproof_subject *(*shardproof_subject_table_function)(void);

/* A function of libshardproof-worker.so: makes this process a rank that runs the suites on this subject, or answers the
 * launcher's questions. Returns the exit code for the process. */
int shardproof_worker_main(int argc, char **argv, const shardproof_subject *subject);

#ifdef __cplusplus
}
#endif
/* NOLINTEND */

#endif
