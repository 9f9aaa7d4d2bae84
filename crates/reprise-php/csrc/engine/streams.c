/* PHP's open streams: resources of one type in EG(regular_list). */
#include <php.h>
#include <SAPI.h>
#include <ext/standard/file.h>

#include <string.h>

#include "streams.h"

static php_stream *stream_of(const zend_resource *resource)
{
	return resource && resource->type == php_file_le_stream() ? resource->ptr : NULL;
}

void engine_each_written_user_stream(void (*each)(const char *path))
{
	zend_resource *resource;

	ZEND_HASH_FOREACH_PTR(&EG(regular_list), resource)
	{
		const php_stream *stream = stream_of(resource);
		if (stream && strcmp(stream->ops->label, "user-space") == 0 && strpbrk(stream->mode, "waxc+")) {
			each(stream->orig_path ? stream->orig_path : "without a name");
		}
	}
	ZEND_HASH_FOREACH_END();
}

/* The streams of php://input read from the body without holding it, so they are closed first. */
void engine_close_request_body(void)
{
	zend_resource *resource, *body = NULL;

	if (!SG(request_info).request_body) {
		/* Opening php://input would make a body. */
		SG(post_read) = true;
		return;
	}
	ZEND_HASH_FOREACH_PTR(&EG(regular_list), resource)
	{
		const php_stream *stream = stream_of(resource);
		if (!stream) {
			continue;
		}
		if (stream == SG(request_info).request_body) {
			body = resource;
		} else if (stream->ops->label && strcmp(stream->ops->label, "Input") == 0) {
			zend_list_close(resource);
		}
	}
	ZEND_HASH_FOREACH_END();
	if (body) {
		zend_list_close(body);
		/* No variable holds the body: without this the closed resource would stay in the list. */
		zend_list_delete(body);
	}
	SG(request_info).request_body = NULL;
	SG(post_read) = true;
}
