"""One function a method, called as the method in snake_case, which decodes, asks the engine and encodes:

    from symd.server.call import Call
    from symd.server.service_context import ServiceContext

    def get_thing(service: ServiceContext, request: GetThingRequest, call: Call) -> Thing:
        return to_thing(service.engine.thing(*from_request(request)))

``service`` is what the daemon consists of, ``call`` says who asks and whether they still wait (named ``_call`` where
nobody needs it). It runs in a thread of the method's work queue; ``answering.method`` decorates it where it is neither
a question nor a stream like others. A method that streams takes or returns an iterator of messages, in a thread of its
own that waits; what it works at is done in a work queue (``WorkQueue.run_for``, ``WorkQueue.each_for``). Whatever is
raised becomes a status in ``server/guard.py``.
"""
