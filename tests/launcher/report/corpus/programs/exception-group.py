# ranks=1
import asyncio


async def read_shard(number):
    if number == 2:
        raise OSError(5, "Input/output error", "/data/shard-2.tar")
    await asyncio.sleep(1)


async def main():
    async with asyncio.TaskGroup() as group:
        for number in range(4):
            group.create_task(read_shard(number))


asyncio.run(main())
