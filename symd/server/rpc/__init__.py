"""One function a method, called as the method in snake_case, which decodes, asks the engine and encodes:

    from symd.server.answering import method
    from symd.server.call import Call
    from symd.server.config import Right
    from symd.server.service_context import ServiceContext

    @method(Right.READ)
    def get_thing(service: ServiceContext, request: GetThingRequest, call: Call) -> Thing:
        return to_thing(service.engine.thing(*from_request(request)))

``service`` is what the daemon consists of, ``call`` says who asks and whether they still wait (named ``_call`` where
nobody needs it). ``answering.method`` declares what right a client needs, without which no server is built, and how the
call is answered where the method is neither a question nor a stream like others. The function runs in a thread of the
method's work queue. One that streams takes or returns an iterator of messages, in a thread of its own that waits; what
it works at is done in a work queue (``WorkQueue.run_for``, ``WorkQueue.each_for``). Where the engine may search for
long, it is called inside ``guard.cancelled_with_call``. Whatever is raised becomes a status
in ``server/guard.py``.
"""
