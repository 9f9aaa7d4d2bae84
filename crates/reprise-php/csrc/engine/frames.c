/*
 * PHP's call frames. A forker reads the frames of a worker while the worker runs: both have the same libraries at the
 * same addresses. The worker is not stopped, so its frames may change meanwhile. So addresses are only passed to the
 * kernel, each length has a limit, and a chain that is not valid ends the trace. This runs on any stack: raw system
 * calls only.
 */
#define _GNU_SOURCE
#include <php.h>

#include <sys/uio.h>

#include "../core/raw.h"
#include "frames.h"

/* Of a trace. */
#define TRACED 40
#define MAX_STRING 400
#define MAX_TRIES 50
/* Bytes that are copied at once, most of them below the innermost frame, where its callers lie. */
#define WINDOW 16384
#define ABOVE 2048

/* What is needed of a call frame. */
struct frame {
	const zend_function *func;
	const zend_op *opline;
};

bool engine_fetch(pid_t pid, const void *from, void *to, size_t size)
{
	struct iovec here = {to, size}, there = {(void *)from, size};

	return raw6(SYS_process_vm_readv, pid, (long)&here, 1, (long)&there, 1, 0) == (long)size;
}

/*
 * A member of what the other process has there. A frame that changes while it is read can say that anything is a
 * pointer: it is a number here, of which no member is taken.
 */
static bool fetch_member(pid_t pid, const void *base, size_t offset, void *to, size_t size)
{
	return engine_fetch(pid, (const void *)((uintptr_t)base + offset), to, size);
}

/* As much as there is, up to so many bytes: a short string may lie at the end of a mapping. */
static size_t fetch_some(pid_t pid, const void *from, void *to, size_t size)
{
	struct iovec here = {to, size}, there = {(void *)from, size};
	long count = raw6(SYS_process_vm_readv, pid, (long)&here, 1, (long)&there, 1, 0);

	if (count < 0) {
		size_t page = PAGE - (uintptr_t)from % PAGE;
		return size > page && engine_fetch(pid, from, to, page) ? page : 0;
	}
	return (size_t)count;
}

/* False: there is no string of PHP. What a frame said that has changed meanwhile may be anything. */
static bool add_string(struct raw_text *text, pid_t pid, const zend_string *string)
{
	struct {
		_Alignas(zend_string) char bytes[_ZSTR_HEADER_SIZE + MAX_STRING + 1];
	} copy;
	uint32_t info;
	size_t length, got = string ? fetch_some(pid, string, copy.bytes, sizeof copy.bytes - 1) : 0;

	if (got <= _ZSTR_HEADER_SIZE) {
		return false;
	}
	raw_copy(&info, copy.bytes + offsetof(zend_string, gc.u.type_info), sizeof info);
	raw_copy(&length, copy.bytes + offsetof(zend_string, len), sizeof length);
	got -= _ZSTR_HEADER_SIZE;
	char *bytes = copy.bytes + _ZSTR_HEADER_SIZE;
	if ((info & GC_TYPE_MASK) != IS_STRING || length == 0 || (length < got && bytes[length])) {
		return false;
	}
	length = length < got ? length : got;
	for (size_t i = 0; i < length; i++) {
		/* Names of anonymous classes and functions have a zero byte. */
		bytes[i] = (unsigned char)bytes[i] < ' ' || bytes[i] == 127 ? '?' : bytes[i];
	}
	bytes[length] = 0;
	raw_add(text, bytes);
	return true;
}

static bool add_place(struct raw_text *text, pid_t pid, const struct frame *frame, const zend_function *function)
{
	uint32_t line;

	raw_add(text, " ");
	if (function->type == ZEND_INTERNAL_FUNCTION) {
		raw_add(text, "[internal]");
		return true;
	}
	if (!add_string(text, pid, function->op_array.filename)) {
		return false;
	}
	if (frame->opline && fetch_member(pid, frame->opline, offsetof(zend_op, lineno), &line, sizeof line)) {
		raw_add(text, ":");
		raw_add_number(text, line);
	}
	return true;
}

static bool add_name(struct raw_text *text, pid_t pid, const zend_function *function)
{
	zend_string *scope_name;

	if (!function->common.function_name) {
		raw_add(text, "{main}");
		return function->type != ZEND_INTERNAL_FUNCTION;
	}
	if (function->common.scope) {
		if (!fetch_member(pid, function->common.scope, offsetof(zend_class_entry, name), &scope_name, sizeof scope_name)
		    || !add_string(text, pid, scope_name)) {
			return false;
		}
		raw_add(text, "::");
	}
	bool is_named = add_string(text, pid, function->common.function_name);
	raw_add(text, "()");
	return is_named;
}

/* False: it is no frame of a function. */
static bool describe(struct raw_text *text, pid_t pid, const struct frame *frame)
{
	zend_function function;

	if (!frame->func
	    || !fetch_member(pid, frame->func, offsetof(zend_function, type), &function.type, sizeof function.type)) {
		return false;
	}
	/* The structure of an internal function is smaller, and may lie at the end of a mapping. */
	size_t size =
	    function.type == ZEND_INTERNAL_FUNCTION ? sizeof function.internal_function : sizeof function.op_array;
	return engine_fetch(pid, frame->func, &function, size) && add_name(text, pid, &function)
	       && add_place(text, pid, frame, &function);
}

struct chain {
	struct frame frames[MOST_FRAMES];
	int size;
	bool is_whole; /* the last frame is that of the script */
};

static bool is_main(pid_t pid, const struct frame *frame)
{
	zend_function function;

	return frame->func
	       && fetch_member(pid, frame->func, offsetof(zend_function, type), &function.type, sizeof function.type)
	       && function.type == ZEND_USER_FUNCTION
	       && fetch_member(pid, frame->func, offsetof(zend_function, common.function_name),
	                       &function.common.function_name, sizeof function.common.function_name)
	       && !function.common.function_name;
}

/* A copy of some of the other process's memory. */
struct window {
	uintptr_t from;
	size_t size;
	char bytes[WINDOW];
};

/*
 * The innermost frame, and what lies around it. The first look says where; the second takes address and frames by one
 * call, so that the worker has a microsecond to leave a frame in between, and not as many as it has frames.
 */
static const zend_execute_data *look(struct window *window, pid_t pid)
{
	const zend_execute_data *at;

	window->size = 0;
	if (!engine_fetch(pid, &executor_globals.current_execute_data, &at, sizeof at) || !at) {
		return NULL;
	}
	window->from = (uintptr_t)at + ABOVE - WINDOW;
	struct iovec here[2] = {{&at, sizeof at}, {window->bytes, WINDOW}};
	struct iovec there[2] = {{(void *)&executor_globals.current_execute_data, sizeof at},
	                         {(void *)window->from, WINDOW}};
	long got = raw6(SYS_process_vm_readv, pid, (long)here, 2, (long)there, 2, 0);
	if (got > (long)sizeof at) {
		window->size = (size_t)got - sizeof at;
	}
	return at;
}

static bool fetch_frame(const struct window *window, pid_t pid, const zend_execute_data *at, zend_execute_data *data)
{
	size_t offset = (uintptr_t)at - window->from;

	if ((uintptr_t)at >= window->from && offset < window->size && window->size - offset >= sizeof *data) {
		raw_copy(data, window->bytes + offset, sizeof *data);
		return true;
	}
	return engine_fetch(pid, at, data, sizeof *data);
}

static void follow(struct chain *chain, pid_t pid, int most)
{
	struct window window;
	const zend_execute_data *at = look(&window, pid);
	zend_execute_data data;

	chain->size = 0;
	while (at && chain->size < most && fetch_frame(&window, pid, at, &data)) {
		chain->frames[chain->size++] = (struct frame){data.func, data.opline};
		at = data.prev_execute_data;
	}
	chain->is_whole = chain->size == most || (chain->size > 0 && !at && is_main(pid, &chain->frames[chain->size - 1]));
	/* What a request had there is not left in this process, of which others are forked. */
	raw_zero(&window, sizeof window);
	raw_zero(&data, sizeof data);
}

size_t engine_each_frame(pid_t pid, int most, int tries, void (*visit)(void *, const struct raw_text *), void *context)
{
	struct chain tried, longest = {.size = 0};
	size_t number = 0;

	most = most < MOST_FRAMES ? most : MOST_FRAMES;
	/* The worker may leave a frame, and make another in its place, before the frame is read. */
	for (int i = 0; i < tries && !longest.is_whole; i++) {
		follow(&tried, pid, most);
		if (tried.is_whole || tried.size > longest.size) {
			raw_copy(&longest, &tried, sizeof tried);
		}
	}
	for (int i = 0; i < longest.size; i++) {
		struct raw_text text;
		text.size = 0;
		if (describe(&text, pid, &longest.frames[i])) {
			text.bytes[text.size < sizeof text.bytes ? text.size : sizeof text.bytes - 1] = 0;
			visit(context, &text);
			number++;
		}
	}
	return number;
}

struct numbered {
	int file;
	uint64_t number;
};

static void write_frame(void *context, const struct raw_text *frame)
{
	struct numbered *numbered = context;
	struct raw_text text;

	text.size = 0;
	raw_add(&text, "#");
	raw_add_number(&text, numbered->number++);
	raw_add(&text, " ");
	raw_add(&text, frame->bytes);
	text.size = text.size < sizeof text.bytes ? text.size : sizeof text.bytes - 1;
	text.bytes[text.size++] = '\n';
	RAW3(SYS_write, numbered->file, text.bytes, text.size);
}

void engine_write_frames(int file, pid_t pid)
{
	struct numbered numbered = {.file = file};

	if (engine_each_frame(pid, TRACED, MAX_TRIES, write_frame, &numbered) == 0) {
		static const char nothing[] = "(no PHP code runs)\n";
		RAW3(SYS_write, file, nothing, sizeof nothing - 1);
	}
}

bool engine_is_in_destructor(void)
{
	for (zend_execute_data *frame = EG(current_execute_data); frame; frame = frame->prev_execute_data) {
		const zend_function *function = frame->func;
		if (function && function->common.scope && function->common.scope->destructor == function) {
			return true;
		}
	}
	return false;
}
